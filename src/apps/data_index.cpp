#include <cmath>
#include <filesystem>

#include "apps/commands.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/text.h"
#include "data/megatron/gpt_dataset.h"
#include "data/megatron/megatron_dataset.h"
#include "files/atomic.h"
#include "files/fd.h"
#include "files/file_set.h"
#include "files/npy.h"
#include "files/safetensors.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace {

struct IndexFlags {
  std::vector<std::string> prefix;
  std::vector<double> weights;
  GptOptions gpt;
  std::string samples, tokenizer, index_tokenizer, out;
  int64_t first = 20;
  bool no_extra_token = false, overwrite = false;
  template <class V>
  void each(V&& v) {
    v("prefix", prefix, "token files, without .bin and .idx", required() & filled() & reads());
    v("weights", weights, "share of each prefix in the samples; none: by the sizes of the prefixes", between(1e-9, 1e15));
    v("split", gpt.split, "shares of train, valid and test");
    v("sequence-length", gpt.sequence_length, "tokens to predict per sample", between(1, kMostTokens));
    v("seed", gpt.seed, "seed of the shuffles", between(0, 4294967295.0));
    v("samples", samples, "samples of train, valid and test, like 1000,20,; an empty number means one epoch",
      required() & metavar("TRAIN,VALID,TEST"));
    v("order", gpt.order, "order of the samples: that of Megatron-core, or of Megatron-LM in 2023");
    v("first", first, "number of samples to write per split", between(0, 1e9));
    v("reset-position-ids", gpt.reset_position_ids, "restart positions after each end of a document");
    v("reset-attention-mask", gpt.reset_attention_mask, "keep attention inside documents");
    v("eod-mask-loss", gpt.eod_mask_loss, "tokens that end a document predict nothing");
    v("eod", gpt.eod, "token id that ends a document", between(0, 2147483647.0));
    v("partial-validation", gpt.partial_valid, "keep the last, padded validation sample");
    v("no-extra-token", no_extra_token, "samples do not overlap by a token; the last column predicts nothing");
    v("tokenizer", tokenizer, "tokenizer whose end token ends a document, if --eod is not set",
      metavar("DIR-or-FILE") & reads());
    v("cache", gpt.index_cache, "folder of Megatron's index files: they are read if they are there, else written",
      filled() & metavar("DIR") & writes());
    v("index-tokenizer", index_tokenizer, "tokenizer identifiers of Megatron-core, from which it makes names of index files",
      metavar("JSON-or-FILE") & at_most_bytes(1 << 20) & reads() &
          detail("Give unique_identifiers as JSON, a file that holds it, or a description.txt of a cache."));
    v("out", out, "folder for the arrays and samples", required() & filled() & metavar("DIR") & writes());
    v("overwrite", overwrite, "replace existing files of these names, all together");
  }
};

std::array<int64_t, 3> parse_sizes(const std::string& text) {
  std::array<int64_t, 3> sizes{0, 0, 0};
  const std::vector<std::string> words = split(text, ',');
  bool good = words.size() <= 3;
  for (size_t i = 0; good && i < words.size(); ++i) {
    const std::string& w = words[i];
    if (w.find_first_not_of("0123456789") != std::string::npos || w.size() > 15)
      good = false;
    else
      sizes[i] = w.empty() ? -1 : std::stoll(w);
  }
  if (!good)
    throw UserError("wrong number of samples", "--samples " + text,
                    "three whole numbers with commas between, each may be empty", "write for example 1000,20,");
  return sizes;
}

template <class T>
void save(const std::string& path, std::span<const T> values, bool pairs) {
  const auto n = static_cast<int64_t>(values.size());
  write_npy(path, npy_code<T>(), sizeof(T), pairs ? Shape{n / 2, 2} : Shape{n}, std::as_bytes(values));
}

// `start` is DIR/train.
void save_indices(const std::string& start, const GptDataset& d) {
  save(start + "-document_index.npy", d.document_index(), false);
  save(start + "-sample_index.npy", d.sample_index(), true);
  save(start + "-shuffle_index.npy", d.shuffle_index(), false);
}

void save_samples(const std::string& start, const GptBlend& data, int64_t count, bool mask) {
  const int64_t n = std::min(count, data.size());
  if (n == 0) return;
  std::vector<int32_t> tokens, labels, positions, part;
  std::vector<uint8_t> loss, attention;
  int64_t S = 0;
  for (int64_t i = 0; i < n; ++i) {
    const GptSample s = data.sample(i);
    S = static_cast<int64_t>(s.tokens.size());
    tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
    labels.insert(labels.end(), s.labels.begin(), s.labels.end());
    positions.insert(positions.end(), s.positions.begin(), s.positions.end());
    loss.insert(loss.end(), s.loss_mask.begin(), s.loss_mask.end());
    if (mask) {
      const std::vector<uint8_t> hidden = hidden_bits(s);
      attention.insert(attention.end(), hidden.begin(), hidden.end());
    }
    part.push_back(static_cast<int32_t>(data.part_of(i)));
  }
  std::vector<TensorBytes> tensors{{"tokens", DType::i32, {n, S}, std::as_bytes(std::span(tokens))},
                                   {"labels", DType::i32, {n, S}, std::as_bytes(std::span(labels))},
                                   {"loss_mask", DType::u8, {n, S}, std::as_bytes(std::span(loss))},
                                   {"position_ids", DType::i32, {n, S}, std::as_bytes(std::span(positions))}};
  if (mask) tensors.push_back({"attention_mask", DType::u8, {n, S, (S + 7) / 8}, std::as_bytes(std::span(attention))});
  if (data.blended()) tensors.push_back({"dataset_id", DType::i32, {n}, std::as_bytes(std::span(part))});
  save_safetensors(start + "-samples.safetensors", tensors, {});
}

// Returns every file name that this command may write into its folder.
std::vector<std::string> outputs_of(const GptBlendList& list) {
  std::vector<std::string> out;
  const bool blended = list.prefixes.size() > 1 || !list.weights.empty();
  for (MegatronSplit s : kMegatronSplits) {
    const std::string start(name(s));
    out.push_back(start + "-samples.safetensors");
    if (blended)
      for (const char* end : {"-dataset_index.npy", "-dataset_sample_index.npy"}) out.push_back(start + end);
    for (size_t k = 0; k < list.prefixes.size(); ++k)
      for (const char* end : {"document", "sample", "shuffle"})
        out.push_back(fmt::format("{}{}-{}_index.npy", start, blended ? fmt::format("-dataset{}", k) : "", end));
  }
  return out;
}

// Returns the blend of a run whose data.train has these sources.
GptBlendList blend_of(const IndexFlags& f) {
  if (!f.weights.empty() && f.weights.size() != f.prefix.size())
    throw UserError("wrong number of weights", "--weights",
                    fmt::format("one for each of {} prefixes, got {}", f.prefix.size(), f.weights.size()),
                    "give as many weights as prefixes");
  std::vector<DataSource> sources(f.prefix.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    sources[i].path = f.prefix[i];
    if (!f.weights.empty()) sources[i].weight = f.weights[i];
  }
  return gpt_blend_list(sources, "--prefix");
}

int run_index(IndexFlags& f, Config&) {
  const GptBlendList list = blend_of(f);
  const std::vector<std::string> names = outputs_of(list);
  std::vector<std::string> outputs;
  for (const std::string& name : names) outputs.push_back(f.out + "/" + name);
  refuse_inputs(options_of(f), "--out", outputs);
  for (const std::string& path : outputs) refuse_existing_file(path, f.overwrite);
  GptOptions o = f.gpt;
  o.extra_token = !f.no_extra_token;
  o.tokenizer = tokenizer_identity(f.index_tokenizer);
  if (o.eod < 0 && !f.tokenizer.empty()) o.eod = open_tokenizer(f.tokenizer)->special().eos.value_or(-1);
  const GptSplits splits = build_gpt_splits(list.prefixes, list.weights, parse_sizes(f.samples), o);
  create_folders(f.out);
  FileSet set(f.out + "/index.replacing", {"index files", names});
  for (MegatronSplit s : kMegatronSplits) {
    const GptBlend* data = splits[static_cast<size_t>(s)].get();
    if (!data) continue;
    const std::string start = set.folder() + "/" + std::string(name(s));
    if (data->blended()) {
      save(start + "-dataset_index.npy", data->dataset_index(), false);
      save(start + "-dataset_sample_index.npy", data->dataset_sample_index(), false);
      for (size_t k = 0; k < data->parts().size(); ++k) save_indices(fmt::format("{}-dataset{}", start, k), *data->parts()[k]);
    } else {
      save_indices(start, *data->parts()[0]);
    }
    save_samples(start, *data, f.first, f.gpt.reset_attention_mask);
  }
  std::vector<std::string> made;
  for (const std::string& name : names)
    if (std::filesystem::exists(set.folder() + "/" + name)) made.push_back(name);
  set.commit(made, f.overwrite);
  for (MegatronSplit s : kMegatronSplits)
    if (const GptBlend* data = splits[static_cast<size_t>(s)].get())
      fmt::print("{:<6} {} of {}; one epoch has {}\n", name(s), counted(data->size(), "sample"),
                 counted(f.gpt.sequence_length, "token"), counted(data->tokens(), "token"));
  return 0;
}

}  // namespace

Command data_index_command() {
  return command<IndexFlags>(
      {.name = "data index",
       .summary = "write the indices and first samples of a data order of Megatron as files",
       .example =
           "ravine data index --prefix corpus_text_document --split 969,30,1 --sequence-length 2048 --seed 1234 --samples 10000,100, --out look",
       .alone = true,
       .lasting = true},
      "Data", run_index);
}

}  // namespace ravine

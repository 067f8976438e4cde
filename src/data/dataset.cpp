#include "data/dataset.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/philox.h"
#include "data/blend.h"
#include "data/fixed_batches.h"
#include "data/indexed/indexed_tokens.h"
#include "data/megatron/megatron_dataset.h"
#include "data/packing.h"
#include "data/permutation.h"
#include "data/source.h"

namespace ravine {

namespace {

class FixedDataset final : public Dataset {
 public:
  explicit FixedDataset(std::vector<std::unique_ptr<FixedBatches>> files) : files_(std::move(files)) {
    for (const auto& f : files_) count_ += f->rows();
  }
  int64_t sample_count() const override { return count_; }
  int64_t columns() const override { return files_[0]->columns(); }
  int64_t token_count() const override { return count_ * columns(); }
  Sample sample(int64_t index) const override {
    auto [file, row] = place(index);
    return files_[file]->sample(row);
  }
  std::string origin(int64_t index) const override {
    auto [file, row] = place(index);
    return fmt::format("{} row {}", files_[file]->path(), row);
  }

 private:
  std::pair<size_t, int64_t> place(int64_t index) const {
    require(index >= 0, "dataset: sample index is 0 or more, got {}", index);
    int64_t row = index % count_;
    size_t file = 0;
    while (row >= files_[file]->rows()) row -= files_[file++]->rows();
    return {file, row};
  }
  std::vector<std::unique_ptr<FixedBatches>> files_;
  int64_t count_ = 0;
};

class TextDataset final : public Dataset {
 public:
  // Streams are blended by weights; without weights they stand one behind the other. Shuffled if there is a seed.
  TextDataset(std::vector<PackedSamples> streams, const std::vector<double>& weights, std::optional<uint64_t> seed,
              int64_t columns)
      : streams_(std::move(streams)), seed_(seed), columns_(columns) {
    for (const auto& s : streams_) {
      count_ += s.count();
      tokens_ += s.tokens().tokens();
    }
    if (weights.size() > 1) blend_.emplace(weights);
  }
  int64_t sample_count() const override { return count_; }
  int64_t columns() const override { return columns_; }
  int64_t token_count() const override { return tokens_; }
  Sample sample(int64_t index) const override {
    auto [stream, number] = place(index);
    return streams_[stream].sample(number);
  }
  std::string origin(int64_t index) const override {
    auto [stream, number] = place(index);
    return streams_[stream].origin(number);
  }

 private:
  std::pair<size_t, int64_t> place(int64_t index) const {
    require(index >= 0, "dataset: sample index is 0 or more, got {}", index);
    if (blend_) {
      auto at = (*blend_)(index);
      auto stream = static_cast<size_t>(at.source);
      return {stream, shuffled(at.index, streams_[stream].count(), at.source)};
    }
    int64_t number = shuffled(index, count_, 0);
    size_t stream = 0;
    while (number >= streams_[stream].count()) number -= streams_[stream++].count();
    return {stream, number};
  }
  int64_t shuffled(int64_t index, int64_t n, int64_t source) const {
    int64_t pass = index / n, number = index % n;
    return seed_ ? Permutation(n, philox_key(*seed_, fmt::format("data/shuffle/{}/{}", source, pass)))(number) : number;
  }
  std::vector<PackedSamples> streams_;
  std::optional<Blend> blend_;
  std::optional<uint64_t> seed_;
  int64_t columns_, count_ = 0, tokens_ = 0;
};

struct Files {
  DataSource source;
  std::vector<std::string> paths;
};

std::vector<Files> expand(const std::vector<DataSource>& sources, const char* key, bool* fixed) {
  std::vector<Files> all;
  bool any_fixed = false, any_text = false;
  for (const auto& s : sources) {
    if (!std::isfinite(s.weight) || s.weight <= 0)
      throw UserError("wrong weight", fmt::format("{}: {}", key, s.path), fmt::format("it must be above 0, got {}", s.weight),
                      "leave the source out instead");
    all.push_back({s, source_files(s.path)});
    for (const auto& f : all.back().paths) (source_kind(f) == SourceKind::fixed ? any_fixed : any_text) = true;
  }
  if (any_fixed && any_text)
    throw UserError("kinds of data do not mix", key, "fixed batch files stand alone", "give either text or .safetensors files");
  *fixed = any_fixed;
  return all;
}

bool all_one(const std::vector<Files>& sources) {
  return std::all_of(sources.begin(), sources.end(), [](const Files& f) { return f.source.weight == 1; });
}

std::unique_ptr<Dataset> open_fixed(const std::vector<Files>& sources, const char* key, const DatasetOptions& options,
                                    int64_t vocabulary) {
  if (!all_one(sources))
    throw UserError("weights do not apply", key, "fixed batch files are taken in order", "remove the weights");
  require(vocabulary > 0, "dataset: fixed batches need the size of the vocabulary, got {}", vocabulary);
  std::vector<std::unique_ptr<FixedBatches>> files;
  for (const auto& s : sources)
    for (const auto& path : s.paths) {
      files.push_back(std::make_unique<FixedBatches>(path, vocabulary));
      if (files.back()->columns() != options.sequence_length)
        throw UserError(
            "wrong sequence length", path + ": input_ids",
            fmt::format("it has {} columns, data.sequence_length is {}", files.back()->columns(), options.sequence_length),
            fmt::format("set data.sequence_length={}", files.back()->columns()));
    }
  return std::make_unique<FixedDataset>(std::move(files));
}

bool is_indexed(const std::string& file) { return source_kind(file) == SourceKind::indexed; }

// Sources that are cut and shuffled as one stream: all text of a list without weights is one, all token files are another; with
// weights each source is one.
std::vector<Files> streams_of(const std::vector<Files>& sources, const char* key, bool weighted) {
  if (weighted) {
    for (const Files& s : sources)
      if (std::any_of(s.paths.begin(), s.paths.end(), is_indexed) && !std::all_of(s.paths.begin(), s.paths.end(), is_indexed))
        throw UserError("kinds of data do not mix", fmt::format("{}: {}", key, s.source.path), "a source with a weight holds text, or token files", "name them apart");
    return sources;
  }
  Files text{sources[0].source, {}}, indexed = text;
  for (const Files& s : sources)
    for (const std::string& path : s.paths) {
      Files& to = is_indexed(path) ? indexed : text;
      if (to.paths.empty()) to.source = s.source;
      to.paths.push_back(path);
    }
  std::vector<Files> streams;
  for (Files* f : {&text, &indexed})
    if (!f->paths.empty()) streams.push_back(std::move(*f));
  return streams;
}

// The dataset of a list of text sources and token files; with `held_out` above 0 `valid` has the documents held out of it.
Datasets open_text(const std::vector<Files>& sources, const char* key, const DatasetOptions& o, const Tokenizer* tokenizer, int64_t vocabulary, double held_out,
                   bool train) {
  const SpecialTokens special = tokenizer ? tokenizer->special() : SpecialTokens{};
  PackOptions pack{o.sequence_length, o.pack, o.document_attention, special.pad.value_or(special.eos.value_or(0))};
  if (o.vocabulary > 0 && pack.padding >= o.vocabulary) pack.padding = 0;
  const bool weighted = train && !all_one(sources);
  const std::vector<Files> groups = streams_of(sources, key, weighted);
  std::vector<PackedSamples> streams, held;
  std::vector<double> weights;
  Datasets d;
  double sum = 0, least = groups[0].source.weight;
  for (const auto& g : groups) {
    if (is_indexed(g.paths[0])) {
      if (held_out > 0)
        throw UserError("nothing to hold out", "data.valid_fraction", "token files are taken whole", "name a validation prefix in data.valid, or use data.order=megatron with data.split");
      streams.emplace_back(std::make_shared<const IndexedTokens>(g.paths, vocabulary), pack);
    } else {
      TokenizeOptions t{o.text_key, o.append_eos, o.vocabulary, held_out, o.threads, o.progress};
      TokensInUse tokens;
      std::optional<TokenizedFiles> files;
      if (!o.cache.empty()) {
        tokens.key = token_key(g.paths, *tokenizer, t);
        files = load_tokens(o.cache, tokens.key, g.paths, *tokenizer);
        tokens.fresh = !files;
      }
      if (!files) files.emplace(tokenize_files(g.paths, *tokenizer, t));
      tokens.train = std::make_shared<const TokenStore>(std::move(files->train));
      tokens.held_out = std::make_shared<const TokenStore>(std::move(files->held_out));
      if (!o.cache.empty()) d.tokens.push_back(tokens);
      streams.emplace_back(tokens.train, pack);
      if (held_out > 0) held.emplace_back(tokens.held_out, pack);
    }
    if (streams.back().count() == 0)
      throw UserError("too little data", fmt::format("{}: {}", key, g.source.path),
                      "at least two tokens are needed for a prediction", "give more text");
    weights.push_back(g.source.weight);
    sum += weights.back();
    least = std::min(least, weights.back());
  }
  if (least / sum < 1.0 / 32768)
    throw UserError("weight too small", key, fmt::format("{} is less than 1/32768 of all", least),
                    "leave the source out or raise its weight");
  if (!weighted) weights.clear();
  auto seed = train && o.shuffle ? std::optional(o.seed) : std::nullopt;
  d.train = std::make_unique<TextDataset>(std::move(streams), weights, seed, o.sequence_length);
  if (held_out > 0) {
    d.valid = std::make_unique<TextDataset>(std::move(held), std::vector<double>{}, std::nullopt, o.sequence_length);
    if (d.valid->sample_count() == 0)
      throw UserError("too little data", "data.valid_fraction", "the held out documents give no prediction",
                      "raise it or name files in data.valid");
  }
  return d;
}

// As many as Megatron asks for when a validation takes train.valid_batches micro batches; one epoch if it takes all.
int64_t valid_samples(const TrainOptions& t) {
  if (t.valid_every == 0) return 0;
  return t.valid_batches == 0 ? -1 : (t.steps / t.valid_every + 1) * t.valid_batches * t.micro_batch;
}

}  // namespace

DatasetOptions dataset_options(const Config& config, int64_t vocabulary) {
  const DataOptions& d = config.data;
  return {.train = d.train,
          .valid = d.valid,
          .valid_fraction = d.valid_fraction,
          .sequence_length = d.sequence_length,
          .text_key = d.text_key,
          .pack = d.pack,
          .document_attention = d.document_attention,
          .append_eos = d.append_eos,
          .shuffle = d.shuffle,
          .seed = static_cast<uint64_t>(config.train.seed),
          .vocabulary = vocabulary,
          .threads = static_cast<int>(config.train.threads),
          .cache = d.cache ? config.train.output + "/tokens" : "",
          .order = d.order,
          .split = d.split,
          .index_cache = d.index_cache,
          .reset_position_ids = d.reset_position_ids,
          .reset_attention_mask = d.reset_attention_mask,
          .eod_mask_loss = d.eod_mask_loss,
          .eod = d.eod,
          .train_samples = config.train.steps * config.train.global_batch,
          .valid_samples = valid_samples(config.train)};
}

bool needs_tokenizer(const DatasetOptions& o) {
  if (o.order != "philox") return (o.reset_position_ids || o.reset_attention_mask || o.eod_mask_loss) && o.eod < 0;
  for (const auto* list : {&o.train, &o.valid})
    for (const auto& s : *list)
      for (const auto& file : source_files(s.path))
        if (SourceKind kind = source_kind(file); kind != SourceKind::fixed && kind != SourceKind::indexed) return true;
  return false;
}

Datasets open_datasets(const DatasetOptions& o, const Tokenizer* tokenizer) {
  if (o.train.empty())
    throw UserError("no training data", "data.train", "it must name at least one source", "set data.train=[FILE]");
  if (o.sequence_length < 1 || o.sequence_length > 1 << 24)
    throw UserError("wrong sequence length", "data.sequence_length", fmt::format("1 to {}, got {}", 1 << 24, o.sequence_length),
                    "choose another length");
  if (!(o.valid_fraction >= 0 && o.valid_fraction < 1))
    throw UserError("wrong share", "data.valid_fraction", fmt::format("0 <= share < 1, got {}", o.valid_fraction),
                    "choose another share");
  if (o.order != "philox") return open_megatron_datasets(o, tokenizer);
  refuse_megatron_options(o);
  Datasets d;
  bool fixed = false, valid_fixed = false;
  auto train = expand(o.train, "data.train", &fixed);
  auto valid = expand(o.valid, "data.valid", &valid_fixed);
  auto has_text = [](const std::vector<Files>& list) {
    for (const Files& f : list)
      for (const std::string& path : f.paths)
        if (SourceKind kind = source_kind(path); kind != SourceKind::fixed && kind != SourceKind::indexed) return true;
    return false;
  };
  if ((has_text(train) || has_text(valid)) && !tokenizer)
    throw UserError("no tokenizer", "model", "text data needs one",
                    "give a model folder with tokenizer.model, or model.tokenizer");
  int64_t vocabulary = o.vocabulary > 0 ? o.vocabulary : tokenizer ? tokenizer->size() : 0;
  double held_out = valid.empty() ? o.valid_fraction : 0;
  if (fixed && held_out > 0)
    throw UserError("nothing to hold out", "data.valid_fraction", "fixed batch files are taken whole",
                    "name validation files in data.valid");
  d = fixed ? Datasets{open_fixed(train, "data.train", o, vocabulary), nullptr, {}}
            : open_text(train, "data.train", o, tokenizer, vocabulary, held_out, true);
  if (!valid.empty() && valid_fixed) {
    d.valid = open_fixed(valid, "data.valid", o, vocabulary);
  } else if (!valid.empty()) {
    Datasets v = open_text(valid, "data.valid", o, tokenizer, vocabulary, 0, false);
    d.valid = std::move(v.train);
    d.tokens.insert(d.tokens.end(), v.tokens.begin(), v.tokens.end());
  }
  return d;
}

}  // namespace ravine

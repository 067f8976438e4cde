#include "data/megatron/megatron_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "data/indexed/indexed_tokens.h"
#include "data/megatron/gpt_dataset.h"
#include "data/megatron/instruction_order.h"
#include "data/source.h"

namespace ravine {

namespace {

class MegatronDataset final : public Dataset {
 public:
  // used: samples of one epoch, the first of `data`.
  MegatronDataset(std::unique_ptr<GptBlend> data, int64_t used, int64_t columns, int64_t vocabulary)
      : data_(std::move(data)), used_(used), columns_(columns), vocabulary_(vocabulary) {}
  int64_t sample_count() const override { return used_; }
  int64_t columns() const override { return columns_; }
  int64_t token_count() const override { return used_ == data_->size() ? data_->tokens() : used_ * columns_; }
  Sample sample(int64_t index) const override {
    GptSample g = data_->sample(index % used_);
    check_ids(g.tokens, vocabulary_, origin(index));
    check_ids(g.labels, vocabulary_, origin(index));
    Sample s;
    for (size_t c = 0; c < g.labels.size(); ++c)
      if (!g.loss_mask[c]) g.labels[c] = kIgnored;
    s.ids = std::move(g.tokens);
    s.labels = std::move(g.labels);
    s.positions = std::move(g.positions);
    s.segments = std::move(g.segments);
    return s;
  }
  std::string origin(int64_t index) const override { return data_->origin(index % used_); }

 private:
  std::unique_ptr<GptBlend> data_;
  int64_t used_, columns_, vocabulary_;
};

}  // namespace

GptBlendList gpt_blend_list(const std::vector<DataSource>& sources, const char* key) {
  const std::vector<double> weights = source_weights(sources);
  GptBlendList list;
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::vector<std::string> files = source_files(sources[i].path);
    for (const std::string& path : files) {
      if (source_kind(path) != SourceKind::indexed)
        throw UserError("not token files", fmt::format("{}: {}", key, path), "a Megatron order takes .bin/.idx prefixes",
                        "make them with ravine preprocess, or set data.order=philox");
      list.prefixes.push_back(path);
      if (!weights.empty()) list.weights.push_back(weights[i] / static_cast<double>(files.size()));
    }
  }
  return list;
}

Datasets open_megatron_datasets(const DatasetOptions& o, const Tokenizer* tokenizer) {
  auto refuse = [](const char* key, const std::string& rule, const std::string& fix) {
    throw UserError("option cannot be combined with a Megatron order", key, rule, fix);
  };
  if (o.valid_fraction > 0) refuse("data.valid_fraction", "data.split says what is held out", "set data.split instead");
  if (o.document_attention)
    refuse("data.document_attention", "documents end at the end-of-document id there",
           "set data.reset_attention_mask=true and data.reset_position_ids=true instead");
  if (!o.shuffle) refuse("data.shuffle=false", "the order is shuffled by the seed", "leave it out");
  const bool instructions = std::any_of(o.train.begin(), o.train.end(), [](const DataSource& s) {
    return source_kind(source_files(s.path).at(0)) == SourceKind::instructions;
  });
  if (!o.pack && !instructions) refuse("data.pack=false", "documents are always joined there", "leave it out");
  const int64_t vocabulary = o.vocabulary > 0 ? o.vocabulary : tokenizer ? tokenizer->size() : 0;
  require(vocabulary > 0, "dataset: token files need the size of the vocabulary, got {}", vocabulary);
  if (instructions && o.samples > 0) refuse("data.samples", "a pass over instruction files has all of them", "leave it out");
  if (instructions) return open_instruction_order(o, vocabulary, tokenizer);

  GptOptions g{o};
  g.order = o.order == SampleOrder::megatron ? MegatronOrder::core : MegatronOrder::of_2023;
  g.seed = static_cast<int64_t>(o.seed);
  if (g.eod < 0 && tokenizer) g.eod = tokenizer->special().eos.value_or(-1);
  g.vocabulary = vocabulary;
  const GptBlendList train = gpt_blend_list(o.train, "data.train");
  // A blend by weights needs a number of samples, also for the single epoch of validation.
  if (o.valid_samples < 0 && o.valid.empty() && !train.weights.empty() && SplitString(o.split).shares(MegatronSplit::valid))
    throw UserError("no number of validation samples", "train.valid_batches", "a blend by weights needs one",
                    "set train.valid_batches, or data.split=100 for no validation");
  Datasets d;
  // whole: samples of one epoch, rounded down to whole steps; 0: all samples.
  auto wrap = [&](std::unique_ptr<GptBlend>& data, int64_t whole) -> std::unique_ptr<Dataset> {
    if (!data || data->size() == 0) return nullptr;
    const int64_t used = whole > 0 ? std::min(whole / o.batch * o.batch, data->size()) : data->size();
    if (used == 0)
      throw UserError("too little data", "data.samples", fmt::format("{} samples fill no step of {}", whole, o.batch),
                      "lower train.global_batch");
    return std::make_unique<MegatronDataset>(std::move(data), used, o.sequence_length, vocabulary);
  };
  const int64_t drawn = o.samples > 0 ? o.samples : o.train_samples;
  if (o.valid.empty()) {
    GptSplits splits = build_gpt_splits(train.prefixes, train.weights, {drawn, o.valid_samples, 0}, g);
    d.train = wrap(splits[0], o.samples);
    d.valid = wrap(splits[1], 0);
  } else {
    const GptBlendList valid = gpt_blend_list(o.valid, "data.valid");
    g.split = "100";
    std::unique_ptr<GptBlend> rows = std::move(build_gpt_splits(train.prefixes, train.weights, {drawn, 0, 0}, g)[0]);
    d.train = wrap(rows, o.samples);
    g.split = "0,100";
    rows = std::move(build_gpt_splits(valid.prefixes, valid.weights, {0, o.valid_samples, 0}, g)[1]);
    d.valid = wrap(rows, 0);
  }
  if (!d.train)
    throw UserError("too little data", "data.train",
                    fmt::format("the split '{}' leaves no sample of {} tokens for training", o.split, o.sequence_length),
                    "give more data or shorter sequences");
  return d;
}

void refuse_megatron_options(const DatasetOptions& o) {
  auto refuse = [](const char* key, const std::string& instead) {
    throw UserError("option has no effect", key, "it belongs to data.order megatron and megatron-2023", instead);
  };
  if (o.reset_position_ids || o.reset_attention_mask)
    refuse("data.reset_position_ids, data.reset_attention_mask", "set data.document_attention=true, or a Megatron order");
  if (o.eod_mask_loss) refuse("data.eod_mask_loss", "leave it out, or set a Megatron order");
  if (!o.index_cache.empty()) refuse("data.index_cache", "leave it out, or set a Megatron order");
}

}  // namespace ravine

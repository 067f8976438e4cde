#include "data/megatron/instruction_order.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/narrow_option.h"
#include "data/instruct/instruction_files.h"
#include "data/megatron/numpy_random.h"
#include "data/source.h"

namespace ravine {

namespace {

class InstructionOrder final : public Dataset {
 public:
  InstructionOrder(std::shared_ptr<const InstructionFiles> files, SplitRange range, std::vector<int64_t> order,
                   const ChatLayout& layout)
      : begin_(range.begin),
        order_(std::move(order)),
        columns_(layout.columns),
        samples_(std::move(files), numbers(range), layout) {}
  int64_t sample_count() const override { return static_cast<int64_t>(order_.size()); }
  int64_t columns() const override { return columns_; }
  int64_t token_count() const override { return samples_.token_count(); }
  Sample sample(int64_t index) const override { return samples_.sample(position(index)); }
  std::string origin(int64_t index) const override { return samples_.origin(position(index)); }
  bool ragged() const override { return true; }

 private:
  static std::vector<int64_t> numbers(SplitRange range) {
    std::vector<int64_t> all(static_cast<size_t>(range.end - range.begin));
    std::iota(all.begin(), all.end(), range.begin);
    return all;
  }
  int64_t position(int64_t index) const { return order_[static_cast<size_t>(index % sample_count())] - begin_; }
  int64_t begin_;
  std::vector<int64_t> order_;
  int64_t columns_;
  InstructionSamples samples_;
};

std::string one_prefix(const std::vector<DataSource>& sources, const char* key) {
  std::vector<std::string> all;
  for (const DataSource& s : sources)
    for (const std::string& path : source_files(s.path)) all.push_back(path);
  if (all.size() != 1 || source_kind(all[0]) != SourceKind::instructions)
    throw UserError("instruction files are not blended in a Megatron order", key,
                    fmt::format("it must name one prefix of them, got {} sources", all.size()),
                    "name one, or set data.order=philox");
  return all[0];
}

}  // namespace

std::vector<int64_t> build_instruction_order(SplitRange range, int64_t samples, uint32_t seed) {
  require(range.end > range.begin, "instruction order: at least one sequence");
  NumpyRandomState random(seed);
  std::vector<int64_t> order;
  do {
    const size_t had = order.size();
    order.resize(had + static_cast<size_t>(range.end - range.begin));
    std::iota(order.begin() + static_cast<ptrdiff_t>(had), order.end(), range.begin);
    random.shuffle(std::span(order).subspan(had));
  } while (samples >= 0 && static_cast<int64_t>(order.size()) <= samples);
  return order;
}

Datasets open_instruction_order(const DatasetOptions& o, int64_t vocabulary, const Tokenizer* tokenizer) {
  if (o.reset_position_ids || o.reset_attention_mask || o.eod_mask_loss || !o.index_cache.empty())
    throw UserError("option has no effect on instruction files",
                    "data.reset_position_ids, data.reset_attention_mask, data.eod_mask_loss, data.index_cache",
                    "each row is one conversation, its labels are in the files", "leave them out");
  const SpecialTokens special = tokenizer ? tokenizer->special() : SpecialTokens{};
  ChatLayout layout{o.sequence_length, false, special.pad.value_or(special.eos.value_or(0))};
  if (layout.padding >= vocabulary) layout.padding = 0;
  Datasets d;
  auto make = [&](const std::string& prefix, const std::string& split, MegatronSplit part, int64_t samples,
                  const char* key) -> std::unique_ptr<Dataset> {
    auto files = std::make_shared<const InstructionFiles>(std::vector{prefix}, vocabulary);
    const auto range =
        // ModelLink has kept this rounding.
        SplitString(split).range(part, files->count(), MegatronOrder::of_2023);
    if (!range || range->begin >= range->end || samples == 0) return nullptr;
    const ChatSetOptions looked{RecordFormat::automatic, o.sequence_length + 1, TooLong::cut, vocabulary, 0, nullptr,
                                o.max_positions};
    const InstructionChoice all = choose_instructions(*files, looked);  // finds every fault
    int64_t cut = 0;
    for (int64_t i = range->begin; i < range->end; ++i) cut += files->length(i) > o.sequence_length + 1;
    const int64_t rows = range->end - range->begin;
    const int64_t silent = rows - std::count_if(all.train.begin(), all.train.end(),
                                                [&](int64_t i) { return i >= range->begin && i < range->end; });
    if (silent == rows) refuse_nothing_learned(all.counts, files->where(range->begin), looked);
    d.notes.push_back(fmt::format("{} ({}, instruction files): {} of {} conversations, {} cut at data.sequence_length", prefix,
                                  key, rows, files->count(), cut));
    if (silent > 0)
      d.notes.push_back(fmt::format("{} of them have no label to learn{}; this order keeps them", silent,
                                    all.counts.answer_behind > 0 ? ", or have it behind data.sequence_length" : ""));
    if (static_cast<double>(silent) > kFewLeftOut * static_cast<double>(rows))
      d.warnings.push_back(
          fmt::format("{}: {} of {} conversations ({:.0f} %) teach nothing: of all, {}{}", prefix, silent, rows,
                      100.0 * static_cast<double>(silent) / static_cast<double>(rows), all.counts.text(),
                      all.counts.answer_behind > 0 ? "; a larger data.sequence_length reaches their answers" : ""));
    if (const InstructionEnd end = instruction_end(all, tokenizer, o.tokenizer_path); !d.end_token) {
      d.end_token = end.token;
      if (!end.note.empty()) d.notes.push_back(end.note);
    }
    return std::make_unique<InstructionOrder>(
        files, *range, build_instruction_order(*range, samples, narrow_option<uint32_t>(o.seed, "train.seed")), layout);
  };
  const std::string train = one_prefix(o.train, "data.train");
  if (o.valid.empty()) {
    d.train = make(train, o.split, MegatronSplit::train, o.train_samples, "train");
    d.valid = make(train, o.split, MegatronSplit::valid, o.valid_samples, "valid");
  } else {
    d.train = make(train, "100", MegatronSplit::train, o.train_samples, "train");
    d.valid = make(one_prefix(o.valid, "data.valid"), "100", MegatronSplit::train, o.valid_samples, "valid");
  }
  if (!d.train)
    throw UserError("too little data", "data.train", fmt::format("the split '{}' leaves no conversation for training", o.split),
                    "give more data, or another split");
  return d;
}

}  // namespace ravine

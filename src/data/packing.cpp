#include "data/packing.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace ravine {

PackedSamples::PackedSamples(std::shared_ptr<const TokenDocuments> tokens, const PackOptions& options)
    : tokens_(std::move(tokens)), options_(options) {
  require(options.columns >= 1, "packing: a sample has at least one column, got {}", options.columns);
  if (options_.pack) {
    count_ = ceil_div(std::max<int64_t>(tokens_->tokens() - 1, 0), options_.columns);
    return;
  }
  for (int64_t d = 0; d < tokens_->documents(); ++d) {
    count_ += ceil_div(std::max<int64_t>(tokens_->end_of(d) - tokens_->begin_of(d) - 1, 0), options_.columns);
    sample_ends_.push_back(count_);
  }
}

PackedSamples::Window PackedSamples::window(int64_t i) const {
  require(i >= 0 && i < count_, "packing: sample is 0 to {}, got {}", count_ - 1, i);
  int64_t from = 0, end = tokens_->tokens(), number = i;
  if (!options_.pack) {
    auto d = std::upper_bound(sample_ends_.begin(), sample_ends_.end(), i) - sample_ends_.begin();
    from = tokens_->begin_of(d);
    end = tokens_->end_of(d);
    number = i - (d == 0 ? 0 : sample_ends_[static_cast<size_t>(d) - 1]);
  }
  int64_t begin = from + number * options_.columns;
  return {begin, std::min(options_.columns, end - 1 - begin)};
}

Sample PackedSamples::sample(int64_t i) const {
  Window w = window(i);
  auto S = static_cast<size_t>(options_.columns), used = static_cast<size_t>(w.columns);
  std::vector<int32_t> row(used + 1);
  tokens_->copy(w.begin, row);
  Sample s;
  s.ids.assign(row.begin(), row.end() - 1);
  s.labels.assign(row.begin() + 1, row.end());
  s.ids.resize(S, options_.padding);
  s.labels.resize(S, kIgnored);
  if (options_.pack && !options_.predict_next_block && used == S) s.labels[S - 1] = kIgnored;
  s.positions.resize(S);
  std::iota(s.positions.begin(), s.positions.end(), 0);
  if (!options_.document_attention) {
    s.segments = {{0, static_cast<int32_t>(used)}};
    return s;
  }
  int64_t document = tokens_->document_at(w.begin);
  for (int64_t at = 0; at < w.columns; ++document) {
    int64_t end = std::min(tokens_->end_of(document) - w.begin, w.columns);
    if (end <= at) continue;  // a document without tokens
    s.segments.push_back({static_cast<int32_t>(at), static_cast<int32_t>(end - at)});
    std::iota(s.positions.begin() + at, s.positions.begin() + end, 0);
    if (tokens_->end_of(document) - w.begin <= w.columns) s.labels[static_cast<size_t>(end) - 1] = kIgnored;
    at = end;
  }
  return s;
}

std::string PackedSamples::origin(int64_t i) const {
  Window w = window(i);
  return tokens_->origin(w.begin, w.begin + w.columns + 1);
}

}  // namespace ravine

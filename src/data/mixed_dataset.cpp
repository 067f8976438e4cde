#include "data/mixed_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/philox.h"
#include "data/permutation.h"

namespace ravine {

MixedDataset::MixedDataset(std::vector<MixedStream> streams, bool blend, std::optional<uint64_t> seed, int64_t columns)
    : streams_(std::move(streams)), blend_(blend && streams_.size() > 1), seed_(seed), columns_(columns) {
  for (const MixedStream& s : streams_) {
    require(s.samples && s.samples->count() > 0, "mixed dataset: stream '{}' is empty", s.name);
    count_ += s.samples->count();
    tokens_ += s.samples->token_count();
    ragged_ = ragged_ || s.samples->ragged();
  }
  DataHistory fresh;
  note_sources(fresh, 0, 1);
  follow(fresh);
}

void MixedDataset::note_sources(DataHistory& history, int64_t step, int64_t global_batch) const {
  std::vector<std::string> names;
  std::vector<double> weights;
  // One stream is recorded as a blend of one, and a run with a blend keeps its weights. So no source loses its position
  // when other sources are added or removed.
  bool apart = blend_ || streams_.size() == 1 ||
               std::any_of(history.segments().begin(), history.segments().end(),
                           [](const DataSegment& s) { return !s.weights.empty(); });
  for (const MixedStream& s : streams_) {
    names.push_back(s.name);
    if (apart) weights.push_back(s.weight);
  }
  history.change(step, global_batch, names, weights);
}

void MixedDataset::follow(const DataHistory& history) {
  names_ = history.sources();
  std::vector<std::string> mine;
  for (const MixedStream& s : streams_) mine.push_back(s.name);
  std::vector<int64_t> numbers = history.numbers(mine);
  stream_of_.clear();
  for (size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] >= 0) stream_of_[numbers[i]] = i;
  parts_.clear();
  std::vector<int64_t> given(names_.size());
  for (const DataSegment& s : history.segments()) {
    if (!parts_.empty() && parts_.back().blend)
      for (size_t k = 0; k < parts_.back().number.size(); ++k)
        given[static_cast<size_t>(parts_.back().number[k])] +=
            parts_.back().blend->taken(static_cast<int64_t>(k), s.sample - parts_.back().begin);
    Part p{s.sample, {}, {}, given};
    std::vector<double> weights;
    for (size_t n = 0; n < s.weights.size(); ++n)
      if (s.weights[n] > 0) {
        p.number.push_back(static_cast<int64_t>(n));
        weights.push_back(s.weights[n]);
      }
    if (!weights.empty()) p.blend.emplace(weights);
    parts_.push_back(std::move(p));
  }
}

int64_t MixedDataset::shuffled(int64_t index, int64_t n, int64_t source) const {
  int64_t pass = index / n, number = index % n;
  return seed_ ? Permutation(n, philox_key(*seed_, fmt::format("data/shuffle/{}/{}", source, pass)))(number) : number;
}

MixedDataset::StreamSample MixedDataset::locate(int64_t index) const {
  require(index >= 0, "dataset: sample index is 0 or more, got {}", index);
  auto part = std::upper_bound(parts_.begin(), parts_.end(), index, [](int64_t i, const Part& p) { return i < p.begin; });
  if (part != parts_.begin() && (part - 1)->blend) {
    const Part& p = *(part - 1);
    Blend::SourceSample at = (*p.blend)(index - p.begin);
    int64_t number = p.number[static_cast<size_t>(at.source)];
    auto found = stream_of_.find(number);
    if (found == stream_of_.end())
      throw UserError("a source of these samples is gone", names_[static_cast<size_t>(number)],
                      "the run took them before data.train was changed", "name it again in data.train to see them");
    const SampleStream& s = *streams_[found->second].samples;
    return {found->second, shuffled(p.given[static_cast<size_t>(number)] + at.index, s.count(), number)};
  }
  int64_t number = shuffled(index, count_, 0);
  size_t stream = 0;
  while (number >= streams_[stream].samples->count()) number -= streams_[stream++].samples->count();
  return {stream, number};
}

Sample MixedDataset::sample(int64_t index) const {
  StreamSample at = locate(index);
  Sample s = streams_[at.stream].samples->sample(at.sample);
  for (size_t before = 0; before < at.stream && !s.pairs.empty(); ++before)
    for (int64_t& pair : s.pairs) pair += streams_[before].samples->pairs().count;
  return s;
}

PairSet MixedDataset::pairs() const {
  PairSet all;
  for (const MixedStream& s : streams_) {
    const PairSet p = s.samples->pairs();
    all.count += p.count;
    all.fingerprint = philox_key(all.fingerprint, fmt::format("{} {}", p.count, p.fingerprint));
  }
  return all;
}

std::string MixedDataset::origin(int64_t index) const {
  StreamSample at = locate(index);
  return streams_[at.stream].samples->origin(at.sample);
}

}  // namespace ravine

// The history of a run's data: batch sizes, sources and weights of its steps, which may change when the run is resumed.
// Checkpoints store it; it is the whole state of the data, in a few hundred bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

// Consecutive steps of a run with the same batch size and the same weights of the data sources.
struct DataSegment {
  // step: the first step of the segment, from 0; sample: the number of samples before this step since the run began.
  int64_t step = 0, sample = 0;
  int64_t global_batch = 1;  // samples per step
  // The weight of each source, by the source's number in the history. 0 or missing: the source is not used. Empty: the
  // sources are not mixed by weights.
  std::vector<double> weights;
};

// The segments of a run. Sources are numbered in the order in which the run first used them, and keep their numbers.
// Two sources of one path are distinguished by their order. An empty history means sample = step * global_batch,
// without a blend.
class DataHistory {
 public:
  DataHistory() = default;
  // Adds a segment: from step `step` on, the run has this batch size and these sources with their weights (empty: the
  // sources are not mixed by weights). Does nothing if they are unchanged. Segments that begin at `step` or later are
  // replaced.
  void change(int64_t step, int64_t global_batch, const std::vector<std::string>& sources, const std::vector<double>& weights);

  bool empty() const { return segments_.empty(); }
  int64_t first_sample(int64_t step) const;  // first sample of a step, from 0; the history must not be empty
  int64_t global_batch(int64_t step) const;
  const std::vector<DataSegment>& segments() const { return segments_; }
  const std::vector<std::string>& sources() const { return sources_; }
  // Returns the numbers of these sources (paths) in the history. A path that the history does not have has number -1.
  std::vector<int64_t> numbers(const std::vector<std::string>& sources) const;

  Json json() const;  // {"sources": [..], "segments": [{"step": 0, "sample": 0, "global_batch": 8, "weights": [..]}]}
  // Makes a history from the result of json(). Invalid JSON content is a UserError that names `where`.
  static DataHistory from_json(const Json& json, const std::string& where);

 private:
  const DataSegment& segment(int64_t step) const;
  std::vector<std::string> sources_;
  std::vector<DataSegment> segments_;
};

}  // namespace ravine

// Which samples the steps of a run take, though batch size, sources and weights may have changed when it was resumed: the whole
// state of a run's data, a few hundred bytes, kept in checkpoints.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

struct DataSegment {
  int64_t step = 0, sample = 0;  // its first step, from 0, and the first sample of that step
  int64_t global_batch = 1;      // samples per step
  std::vector<double> weights;   // shares of the sources (by their number), 0 or missing: not in use; empty: no blend
};

// Sources are numbered in the order in which the run met them, and keep their number for ever; two of one path are told apart
// by their order. An empty history takes step * global_batch, without a blend.
class DataHistory {
 public:
  DataHistory() = default;
  // From step `step` on the run has this batch and these sources with their weights (no weights: no blend). Nothing happens if
  // that is how it was. Segments that begin at `step` or later are replaced.
  void change(int64_t step, int64_t global_batch, const std::vector<std::string>& sources, const std::vector<double>& weights);

  bool empty() const { return segments_.empty(); }
  int64_t first_sample(int64_t step) const;  // of a step from 0; not of an empty history
  int64_t global_batch(int64_t step) const;
  const std::vector<DataSegment>& segments() const { return segments_; }
  const std::vector<std::string>& sources() const { return sources_; }
  // Numbers of these sources; -1 for one that the run never met.
  std::vector<int64_t> numbers(const std::vector<std::string>& sources) const;

  Json json() const;  // {"sources": [..], "segments": [{"step": 0, "sample": 0, "global_batch": 8, "weights": [..]}]}
  static DataHistory from_json(const Json& json,
                               const std::string& where);  // a UserError naming `where` if it is no such thing

 private:
  const DataSegment& segment(int64_t step) const;
  std::vector<std::string> sources_;
  std::vector<DataSegment> segments_;
};

}  // namespace ravine

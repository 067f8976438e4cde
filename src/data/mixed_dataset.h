// Combines streams of samples into one dataset: shuffled, and blended by weights.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "data/blend.h"
#include "data/dataset.h"
#include "data/stream.h"

namespace ravine {

// One source of a MixedDataset.
struct MixedStream {
  std::string name;  // path of the source, as in the run's DataHistory
  double weight = 1;
  std::unique_ptr<SampleStream> samples;  // at least one sample
};

// A dataset of several streams of samples. With `blend`, each stream is shuffled separately and gets its share of the
// samples by its weight (data/blend.h). Otherwise the streams are concatenated and shuffled together. If the seed is
// empty, nothing is shuffled. The permutation of a stream follows from the seed, the number of the stream in the
// history, and the epoch.
class MixedDataset final : public Dataset {
 public:
  MixedDataset(std::vector<MixedStream> streams, bool blend, std::optional<uint64_t> seed, int64_t columns);
  int64_t sample_count() const override { return count_; }
  int64_t columns() const override { return columns_; }
  int64_t token_count() const override { return tokens_; }
  bool ragged() const override { return ragged_; }
  PairSet pairs() const override;  // the pairs of all streams, numbered in the order of the streams
  Sample sample(int64_t index) const override;
  std::string origin(int64_t index) const override;
  void note_sources(DataHistory& history, int64_t step, int64_t global_batch) const override;
  void follow(const DataHistory& history) override;

 private:
  struct Part {  // samples from `begin` on
    int64_t begin = 0;
    std::optional<Blend> blend;
    std::vector<int64_t> number;  // number in the history of each source of the blend
    std::vector<int64_t> given;   // samples of each source before `begin`, by the source's number
  };
  struct StreamSample {
    size_t stream = 0;
    int64_t sample = 0;
  };
  StreamSample locate(int64_t index) const;
  int64_t shuffled(int64_t index, int64_t n, int64_t source) const;

  std::vector<MixedStream> streams_;
  bool blend_, ragged_ = false;
  std::optional<uint64_t> seed_;
  int64_t columns_, count_ = 0, tokens_ = 0;
  std::vector<Part> parts_;
  std::map<int64_t, size_t> stream_of_;  // by number in the history
  std::vector<std::string> names_;       // by number in the history
};

}  // namespace ravine

// Selects the source of each sample if sources are mixed by weights.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ravine {

// A function from the index of a training sample to its source, for sources that are mixed by weights. It repeats every
// 65536 samples. In each period, a source has the whole number of samples that is nearest to its share. The samples of
// a source are spread evenly: each sample goes to the source that is furthest behind. Any run of samples therefore
// follows the weights within a few samples.
class Blend {
 public:
  // weights: at least one, all above 0. A weight below 1/65536 of the sum of weights is an Error.
  explicit Blend(std::span<const double> weights);
  struct SourceSample {
    // source: index of the source in `weights`; index: number of earlier samples that were taken from this source.
    int64_t source = 0, index = 0;
  };
  SourceSample operator()(int64_t sample) const;
  // Returns how many of the first `samples` samples are taken from the source.
  int64_t taken(int64_t source, int64_t samples) const;

 private:
  static constexpr int64_t kPeriod = 65536;
  std::vector<uint16_t> source_;  // the source of each sample of a period
  std::vector<uint32_t> rank_;    // for each sample of a period: number of earlier samples of the same source
  std::vector<int64_t> per_period_;
};

}  // namespace ravine

// Selects the source of each sample if sources are mixed by weights.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ravine {

// Assigns samples to sources in periods of 65536 samples. In each period, a source has the whole number of samples that
// is nearest to its share. The samples of a source are spread evenly: each sample goes to the source that is furthest
// behind. Any run of samples therefore follows the weights within a few samples. The source of a sample follows from
// the index of the sample alone.
class Blend {
 public:
  explicit Blend(std::span<const double> weights);  // above 0, at least one; a share below 1/65536 is an Error
  struct Place {
    int64_t source = 0, index = 0;  // number of the sample (from 0) among the samples of this source
  };
  Place operator()(int64_t sample) const;
  int64_t taken(int64_t source, int64_t samples) const;  // number of samples of this source among the first `samples`

 private:
  static constexpr int64_t kPeriod = 65536;
  std::vector<uint16_t> source_;  // of each sample of a period
  std::vector<uint32_t> rank_;    // number of the sample within its source
  std::vector<int64_t> per_period_;
};

}  // namespace ravine

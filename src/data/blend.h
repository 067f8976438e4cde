// Which source a sample comes from, when sources are mixed by weights.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ravine {

// Samples come in periods of 65536; each source has the whole number of places in a period that is nearest its share, spread
// evenly (each place goes to the source furthest behind). So any stretch of samples honours the weights to within a few
// samples, and a sample's source and number follow from its index alone.
class Blend {
 public:
  explicit Blend(std::span<const double> weights);  // above 0, at least one; a share below 1/65536 is an Error
  struct Place {
    int64_t source = 0, index = 0;  // the index-th sample (from 0) that this source gives in all
  };
  Place operator()(int64_t sample) const;
  int64_t taken(int64_t source, int64_t samples) const;  // of this source among the first so many

 private:
  static constexpr int64_t kPeriod = 65536;
  std::vector<uint16_t> source_;  // of each place
  std::vector<uint32_t> rank_;    // among the places of its source
  std::vector<int64_t> per_period_;
};

}  // namespace ravine

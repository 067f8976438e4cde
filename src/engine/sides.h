// Values that leave blocks sideways: sums of losses, counts. Kept per micro batch, exact and free of order, so that it does not
// matter which stage, rank or micro batch gave what.
#pragma once
#include <map>

#include "base/exact_sum.h"

namespace ravine {

enum class Side : uint8_t { loss };  // loss: of the labels of a micro batch that count, summed

class Sides {
 public:
  void add(int64_t micro, Side side, const ExactSum& sum) { sums_[{micro, side}].add(sum); }
  // Of one micro batch; zero if nothing came.
  ExactSum of(int64_t micro, Side side) const {
    auto it = sums_.find({micro, side});
    return it == sums_.end() ? ExactSum() : it->second;
  }
  ExactSum total(Side side) const {
    ExactSum all;
    for (auto& [key, sum] : sums_)
      if (key.second == side) all.add(sum);
    return all;
  }
  void clear() { sums_.clear(); }

 private:
  std::map<std::pair<int64_t, Side>, ExactSum> sums_;
};

}  // namespace ravine

#include "train/disk_needs.h"

#include <algorithm>

namespace ravine {

DiskNeeds disk_needs(int64_t checkpoint, int64_t model, int64_t saves, int64_t keep, int64_t there) {
  auto kept = [&](int64_t n) {
    return keep == 0 ? n : std::min(n, std::max(keep, int64_t{1}));
  };  // of n, once older ones are removed
  // Beyond what lies there after `n` saves more: while the last is written the ones it replaces are still there; then comes the
  // model.
  auto needs = [&](int64_t n) {
    if (n == 0) return model;
    const int64_t before = n == 1 ? 0 : std::max(int64_t{0}, kept(there + n - 1) - there), after = kept(there + n) - there;
    return std::max((before + 1) * checkpoint, after * checkpoint + model);
  };
  DiskNeeds d;
  d.least = std::max(int64_t{0}, needs(std::min<int64_t>(saves, 1)));
  d.most = std::max(d.least, needs(saves));
  return d;
}

}  // namespace ravine

#include "parallel/leaf_sums.h"

#include <utility>

namespace ravine {

void LeafSums::join_last(Ctx& c) {
  TensorView later = levels_.back().view(), sum = levels_[levels_.size() - 2].view();
  c.call(Add{sum, later, sum});
  levels_.pop_back();
}

void LeafSums::add(Ctx& c, Tensor leaf) {
  levels_.push_back(std::move(leaf));
  for (int64_t n = ++count_; n % 2 == 0; n /= 2) join_last(c);
}

Tensor LeafSums::total(Ctx& c) {
  while (levels_.size() > 1) join_last(c);
  Tensor sum = levels_.empty() ? Tensor() : std::move(levels_.back());
  clear();
  return sum;
}

}  // namespace ravine

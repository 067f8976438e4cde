// Gradients of activations on their way back, by identity.
#pragma once
#include <map>
#include <vector>

#include "engine/tensor.h"

namespace ravine {

class Grads {
 public:
  explicit Grads(Arena& arena) : arena_(arena) {}

  bool has(const TensorRef& ref) const;  // any part of it was written
  // The gradient (of that column range). Throws if it, or a part of it, was never written.
  Tensor get(const TensorRef& ref) const;
  // The same, and forgets it, so that the memory may be written over. Whole tensors only.
  Tensor take(const TensorRef& ref);
  // Memory to write a gradient to. The first writer of a column range overwrites (accumulate = false), later ones add.
  Tensor add_to(const TensorRef& ref, bool& accumulate);
  // Adopts `t` as the gradient of a tensor that has none yet; the memory may be shared with another gradient.
  void put(const TensorRef& ref, Tensor t);
  void rename(const TensorRef& from, const TensorRef& to);
  void drop(const TensorRef& ref) { entries_.erase(ref.id); }
  bool empty() const { return entries_.empty(); }
  bool only(const std::vector<TensorRef>& refs) const;  // nothing else has a gradient
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    Tensor tensor;
    std::vector<std::pair<int64_t, int64_t>> written;  // column ranges
  };
  std::map<uint64_t, Entry> entries_;
  Arena& arena_;
};

}  // namespace ravine

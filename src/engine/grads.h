// Gradients of activations during the backward pass, by the id of their tensor.
#pragma once
#include <map>
#include <vector>

#include "engine/tensor.h"

namespace ravine {

class Grads {
 public:
  explicit Grads(Arena& arena) : arena_(arena) {}

  // True if a gradient of any part of the tensor was written.
  bool has(const TensorRef& ref) const;
  // Returns the gradient of a tensor, or of the column range that `ref` names. An Error if a part of it was never
  // written.
  Tensor get(const TensorRef& ref) const;
  // Returns the gradient of a tensor and removes it from the table, so that its memory may be overwritten. Whole
  // tensors only.
  Tensor take(const TensorRef& ref);
  // Returns the memory into which the gradient of a tensor (or column range) is written. The first call for a column
  // range sets accumulate = false (overwrite), later calls set true (add).
  Tensor add_to(const TensorRef& ref, bool& accumulate);
  // Stores `t` as the gradient of a tensor that has no gradient yet. The memory may be shared with another gradient.
  void put(const TensorRef& ref, Tensor t);
  void rename(const TensorRef& from, const TensorRef& to);
  void drop(const TensorRef& ref) { entries_.erase(ref.id); }
  bool empty() const { return entries_.empty(); }
  bool only(const std::vector<TensorRef>& refs) const;  // no other tensor has a gradient
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

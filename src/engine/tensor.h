// Tensor: a reference-counted handle of arena memory. TensorRef: the identity of a tensor, without its memory.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "device/arena.h"
#include "kernels/view.h"

namespace ravine {

class Ctx;
class Tensor;

// The identity of a tensor. Backward closures may capture it, since it holds no memory. A column slice has the id of
// the whole tensor.
struct TensorRef {
  uint64_t id = 0;           // 0: none
  DType dtype = DType::f32;  // shape of the whole tensor, [rows, columns]
  Shape shape;               // of the whole, [rows, columns]
  int64_t column = 0, columns = 0;
  bool whole() const { return column == 0 && columns == shape[-1]; }
};

// A function that computes a tensor again from other saved tensors. A stash may keep this function instead of the
// values.
using Rebuild = std::function<Tensor(Ctx&)>;

class Tensor {
 public:
  Tensor() = default;
  // Allocates a tensor with a new id in the arena. Its values are not initialised.
  static Tensor make(Arena& arena, const Shape& shape, DType dtype, MemoryKind kind);

  const TensorView& view() const { return view_; }
  const TensorRef& ref() const { return ref_; }
  DType dtype() const { return view_.dtype; }
  int64_t rows() const { return view_.rows(); }
  int64_t cols() const { return view_.cols(); }
  explicit operator bool() const { return memory_ != nullptr; }
  // True if no other Tensor shares this memory, so that it may be overwritten.
  bool unique() const { return memory_.use_count() == 1; }

  Tensor columns(int64_t from, int64_t n) const;  // a slice with the same memory and the same id
  Tensor renamed() const;                         // the same memory with a new id (for an op that works in place)

  const std::shared_ptr<const Rebuild>& rebuild() const { return rebuild_; }
  void set_rebuild(Rebuild f) { rebuild_ = std::make_shared<const Rebuild>(std::move(f)); }

 private:
  struct Memory {
    Arena* arena;
    ArenaBlock block;
    ~Memory() { arena->release(block); }
  };
  std::shared_ptr<Memory> memory_;
  TensorView view_;
  TensorRef ref_;
  std::shared_ptr<const Rebuild> rebuild_;
};

// The values that a block passes to the next block, also between pipeline stages: the residual stream x, and optionally
// a branch that is not added to it yet.
struct Flow {
  Tensor x, branch;
};

}  // namespace ravine

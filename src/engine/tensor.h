// Tensor: a counted handle into an arena. TensorRef: its identity without the memory.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "device/arena.h"
#include "kernels/view.h"

namespace ravine {

class Ctx;
class Tensor;

// Which tensor, not where: what backward closures may capture. A column slice keeps the id of its whole.
struct TensorRef {
  uint64_t id = 0;  // 0: none
  DType dtype = DType::f32;
  Shape shape;  // of the whole, [rows, columns]
  int64_t column = 0, columns = 0;
  bool whole() const { return column == 0 && columns == shape[-1]; }
};

// How to make a tensor again from what is saved anyway; a stash may keep this instead of the values.
using Rebuild = std::function<Tensor(Ctx&)>;

class Tensor {
 public:
  Tensor() = default;
  // A new tensor (a new id) of arena memory. Uninitialised.
  static Tensor make(Arena& arena, const Shape& shape, DType dtype, MemoryKind kind);

  const TensorView& view() const { return view_; }
  const TensorRef& ref() const { return ref_; }
  DType dtype() const { return view_.dtype; }
  int64_t rows() const { return view_.rows(); }
  int64_t cols() const { return view_.cols(); }
  explicit operator bool() const { return memory_ != nullptr; }
  bool unique() const { return memory_.use_count() == 1; }  // nobody else holds the memory: it may be written over

  Tensor columns(int64_t from, int64_t n) const;  // a slice: same memory, same id
  Tensor renamed() const;                         // same memory under a new id (an op that works in place on shared history)

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

// What blocks and stages pass on, also over the wire: the residual stream, and a branch not yet added to it (optional).
struct Flow {
  Tensor x, branch;
};

}  // namespace ravine

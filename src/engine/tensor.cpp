#include "engine/tensor.h"

namespace ravine {
namespace {
uint64_t next_id() {
  static std::atomic<uint64_t> last{0};  // only an identity: no result depends on its value
  return ++last;
}
}  // namespace

Tensor Tensor::make(Arena& arena, const Shape& shape, DType dtype, MemoryKind kind) {
  Tensor t;
  int64_t bytes = mul_checked(shape.count(), size_of(dtype));
  t.memory_ = std::shared_ptr<Memory>(new Memory{&arena, arena.allocate(bytes, kind)});
  t.view_ = view_of(t.memory_->block.data, dtype, shape, arena.device());
  t.ref_ = {next_id(), dtype, shape, 0, t.view_.cols()};
  return t;
}

Tensor Tensor::columns(int64_t from, int64_t n) const {
  require(from >= 0 && n >= 0 && from + n <= cols(), "columns: [{}, {}) of {}", from, from + n, cols());
  Tensor t = *this;
  t.rebuild_.reset();
  t.view_ = view_.columns(from, n);
  t.ref_.column += from;
  t.ref_.columns = n;
  return t;
}

Tensor Tensor::renamed() const {
  Tensor t = *this;
  t.rebuild_.reset();
  t.ref_.id = next_id();
  return t;
}

}  // namespace ravine

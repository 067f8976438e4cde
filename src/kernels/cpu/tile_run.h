// Small products in sequences of one shape.
#pragma once
#include <optional>

#include "kernels/cpu/tile.h"

namespace ravine {

// Runs tile products, and keeps the kernel of the last shape. Each thread has its own.
class TileRun {
 public:
  void operator()(const Tile& shape, const float* a, const float* b, float* c) {
    if (!kernel_ || kernel_->shape() != shape) kernel_.emplace(shape);
    (*kernel_)(a, b, c);
  }

 private:
  std::optional<TileKernel> kernel_;
};

}  // namespace ravine

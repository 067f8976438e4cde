// Ranks that act together along one axis of the mesh. A group of one (self_group) is always there.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/view.h"

namespace ravine {

enum class Axis : uint8_t { pipeline, data, tensor };

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Adds `x` over the ranks, in rank order whatever the library does, and leaves the sum on every rank. Blocks.
  virtual void all_reduce(const TensorView& x) const = 0;
};

// One rank: every collective is the identity.
class SelfGroup : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(const TensorView&) const override {}
};

}  // namespace ravine

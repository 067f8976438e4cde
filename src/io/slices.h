// Boxes of a tensor: the elements that a rank holds, and the runs that two boxes share. All row-major.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/shape.h"

namespace ravine {

// A rectangle of a tensor's elements: from `begin`, of shape `shape`.
struct Box {
  std::vector<int64_t> begin;  // first index in each dim
  Shape shape;
  std::string text() const;  // "[0:2, 3:5]"
};

// Returns a text on why the boxes do not cover a tensor of shape `global` exactly once; "" if they do.
std::string cover_fault(const Shape& global, const std::vector<Box>& boxes);

// A run of elements that is contiguous in two boxes: its offset in each, from the start of the box, and its length, all
// in elements.
struct Run {
  int64_t from = 0, to = 0, count = 0;
};

// Calls f for each longest run of elements that the boxes `from` and `to` share, in order. Both are boxes of the same
// tensor.
void each_shared_run(const Box& from, const Box& to, const std::function<void(const Run&)>& f);

}  // namespace ravine

// The bytes of tensors, a piece at a time and in another type if asked: memory stays bounded whatever their size.
#pragma once
#include <functional>

#include "io/convert/elements.h"

namespace ravine {

inline constexpr int64_t kStreamBytes = int64_t{8} << 20;  // of one piece

// Calls `write` with the elements as `dtype`, in order; pieces are read and converted in parallel_for.
void stream(const Elements& tensor, DType dtype, const std::function<void(std::span<const std::byte>)>& write);

}  // namespace ravine

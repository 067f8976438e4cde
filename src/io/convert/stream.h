// Streams the bytes of tensors piece by piece, optionally in another type. Memory is bounded for any size.
#pragma once
#include <functional>

#include "io/convert/elements.h"

namespace ravine {

inline constexpr int64_t kStreamBytes = int64_t{8} << 20;  // bytes of one piece

// Calls `write` with the bytes of all elements, converted to `dtype`, in order and in pieces of about kStreamBytes.
// Pieces are read and converted in parallel_for.
void stream(const Elements& tensor, DType dtype, const std::function<void(std::span<const std::byte>)>& write);

}  // namespace ravine

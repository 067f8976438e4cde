// Prefetch hints for memory that the hardware prefetchers do not predict.
#pragma once
#include "kernels/cpu/pack.h"

namespace ravine {

// Prefetches rows x cols elements of a matrix into the second-level cache. Rows that are a page apart are not predicted
// by the hardware prefetchers.
inline void prefetch(const Corner& from, int64_t rows, int64_t cols) {
  const char* p = static_cast<const char*>(from.data);
  const int64_t size = size_of(from.dtype), bytes = cols * size;
  for (int64_t i = 0; i < rows; ++i, p += from.stride * size)
    for (int64_t j = 0; j < bytes; j += 64) __builtin_prefetch(p + j, 0, 2);
}

}  // namespace ravine

// Hints for memory that the machine's own prefetchers do not foresee.
#pragma once
#include "kernels/cpu/pack.h"

namespace ravine {

// Asks for rows x cols elements to be brought into the second-level cache, while something else is computed: rows that lie a
// page apart are beyond the machine's own prefetchers.
inline void prefetch(const Corner& from, int64_t rows, int64_t cols) {
  const char* p = static_cast<const char*>(from.data);
  const int64_t size = size_of(from.dtype), bytes = cols * size;
  for (int64_t i = 0; i < rows; ++i, p += from.stride * size)
    for (int64_t j = 0; j < bytes; j += 64) __builtin_prefetch(p + j, 0, 2);
}

}  // namespace ravine

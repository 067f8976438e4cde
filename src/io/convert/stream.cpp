#include "io/convert/stream.h"

#include <algorithm>

#include "base/parallel.h"
#include "files/convert.h"

namespace ravine {

void stream(const Elements& tensor, DType dtype, const std::function<void(std::span<const std::byte>)>& write) {
  constexpr int64_t kChunk = int64_t{1} << 19;  // elements that one thread takes
  const int64_t from_size = size_of(tensor.dtype()), to_size = size_of(dtype);
  const int64_t piece = kStreamBytes / std::max(from_size, to_size), all = tensor.count();
  std::vector<std::byte> source, target;
  for (int64_t begin = 0; begin < all; begin += piece) {
    const int64_t count = std::min(piece, all - begin);
    source.resize(static_cast<size_t>(count * from_size));
    if (tensor.dtype() != dtype) target.resize(static_cast<size_t>(count * to_size));
    parallel_for(ceil_div(count, kChunk), [&](int64_t i) {
      const int64_t at = i * kChunk, n = std::min(kChunk, count - at);
      tensor.read(begin + at, {source.data() + at * from_size, static_cast<size_t>(n * from_size)});
      if (tensor.dtype() != dtype)
        convert(tensor.dtype(), source.data() + at * from_size, dtype, target.data() + at * to_size, n);
    });
    write(tensor.dtype() == dtype ? source : target);
  }
}

}  // namespace ravine

#include "io/convert/stream.h"

#include <fcntl.h>

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "files/convert.h"
#include "files/fd.h"

namespace ravine {
namespace {

// What has been read once is not read again: its pages go at once, instead of pushing out those of others one by one later.
class Passing {
 public:
  explicit Passing(const Elements& tensor) {
    std::set<std::string> paths;
    tensor.files(paths);
    for (const std::string& path : paths) {
      int64_t size = 0;
      if (files_.size() < 64) files_.push_back(open_to_read(path, &size));
    }
  }
  void forget() const {
    for (const Fd& f : files_) ::posix_fadvise(*f, 0, 0, POSIX_FADV_DONTNEED);
  }

 private:
  std::vector<Fd> files_;
};

}  // namespace

void stream(const Elements& tensor, DType dtype, const std::function<void(std::span<const std::byte>)>& write) {
  constexpr int64_t kChunk = int64_t{1} << 19;  // elements that one thread takes
  const int64_t from_size = size_of(tensor.dtype()), to_size = size_of(dtype);
  const int64_t piece = kStreamBytes / std::max(from_size, to_size), all = tensor.count();
  std::vector<std::byte> source, target;
  const Passing passing(tensor);
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
    if (all * from_size >= kStreamBytes / 4) passing.forget();
  }
}

}  // namespace ravine

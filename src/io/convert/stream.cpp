#include "io/convert/stream.h"

#include <fcntl.h>

#include <algorithm>
#include <future>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "files/convert.h"
#include "files/fd.h"

namespace ravine {
namespace {

// Drops the source's pages from the page cache after reading: they are not read again, and would later evict other
// pages.
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
  constexpr int64_t kChunk = int64_t{1} << 19;  // elements per thread and call
  const int64_t from_size = size_of(tensor.dtype()), to_size = size_of(dtype);
  const int64_t piece = kStreamBytes / std::max(from_size, to_size), all = tensor.count();
  const int64_t largest = std::min(piece, all);
  // Not zeroed first: pages are touched by the threads that fill them.
  auto source = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(largest * from_size));
  auto target =
      std::make_unique_for_overwrite<std::byte[]>(tensor.dtype() != dtype ? static_cast<size_t>(largest * to_size) : 0);
  const Passing passing(tensor);
  for (int64_t begin = 0; begin < all; begin += piece) {
    const int64_t count = std::min(piece, all - begin);
    parallel_for(ceil_div(count, kChunk), [&](int64_t i) {
      const int64_t at = i * kChunk, n = std::min(kChunk, count - at);
      tensor.read(begin + at, {source.get() + at * from_size, static_cast<size_t>(n * from_size)});
      if (tensor.dtype() != dtype)
        convert(tensor.dtype(), source.get() + at * from_size, dtype, target.get() + at * to_size, n);
    });
    std::future<void> forgotten;  // takes the kernel as long as a copy
    if (all * from_size >= kStreamBytes / 4) forgotten = std::async(std::launch::async, [&] { passing.forget(); });
    write({(tensor.dtype() == dtype ? source : target).get(), static_cast<size_t>(count * to_size)});
  }
}

}  // namespace ravine

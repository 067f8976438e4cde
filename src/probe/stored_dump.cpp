#include "probe/stored_dump.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "files/fd.h"

namespace ravine {

constexpr int64_t kReadahead = 128 * 1024;  // bytes that the operating system reads ahead per request, on any disk

std::span<const std::byte> StoredDump::bytes(const DumpRecord& r) {
  if (!r.parts.empty()) {
    joined_ = joined_parts(r, [&](const StoredPart& p) { return part(p, r); });
    return joined_;
  }
  const auto bytes = part({r.file, r.stored}, r);
  if (static_cast<int64_t>(bytes.size()) != r.shape.count() * size_of(r.dtype))
    throw UserError(fmt::format("{} is of {} bytes", r.stored, bytes.size()), folder_ + "/" + r.file,
                    fmt::format("the dump's log says {} {}", name(r.dtype), r.shape.text()), "dump again");
  return bytes;
}

void StoredDump::will_read(const DumpRecord& r) {
  if (!r.file.empty()) will_read(r.file);
  for (const StoredPart& p : r.parts) will_read(p.file);
}

void StoredDump::will_read(const std::string& file) {
  if (file == opened_) return;
  opened_ = file;
  const Fd fd(::open((folder_ + "/" + file).c_str(), O_RDONLY | O_CLOEXEC));
  const int64_t size = fd ? ::lseek(*fd, 0, SEEK_END) : 0;
  for (int64_t at = 0; at < size; at += kReadahead) ::posix_fadvise(*fd, at, kReadahead, POSIX_FADV_WILLNEED);
}

std::span<const std::byte> StoredDump::part(const StoredPart& p, const DumpRecord& r) {
  DType dtype = DType::f32;
  const auto bytes = tensors_.bytes(p, &dtype);
  if (dtype != r.dtype)
    throw UserError(fmt::format("{} is {}", p.stored, name(dtype)), folder_ + "/" + p.file,
                    fmt::format("the dump's log says {}", name(r.dtype)), "dump again");
  return bytes;
}

}  // namespace ravine

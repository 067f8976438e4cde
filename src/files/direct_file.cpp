#include "files/direct_file.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "base/log.h"

namespace ravine {
namespace {
constexpr int64_t kBuffer = int64_t{1} << 20;
constexpr int64_t kWrite = int64_t{4} << 20;  // bytes of one write
constexpr unsigned kDepth = 4;  // writes in flight: the checksum of one piece is computed during the writes of others
constexpr int64_t kDirty = int64_t{32} << 20;
}  // namespace

struct DirectFile::Ring {
  io_uring ring{};
  std::array<std::span<const std::byte>, kDepth> pieces;
  std::array<int64_t, kDepth> offsets{};
  unsigned in_flight = 0;

  static std::unique_ptr<Ring> make() {
    auto r = std::make_unique<Ring>();
    r->open = io_uring_queue_init(kDepth, &r->ring, 0) == 0;
    return r->open ? std::move(r) : nullptr;
  }
  ~Ring() {
    if (!open) return;
    while (in_flight > 0) {  // the kernel reads memory that its owner may change afterwards
      io_uring_cqe* done = nullptr;
      if (const int code = io_uring_wait_cqe(&ring, &done); code == 0)
        finish_one(done);
      else if (code != -EINTR)
        break;
    }
    io_uring_queue_exit(&ring);
  }

  void start(int fd, unsigned slot, std::span<const std::byte> bytes, int64_t offset) {
    pieces[slot] = bytes;
    offsets[slot] = offset;
    io_uring_sqe* entry = io_uring_get_sqe(&ring);
    io_uring_prep_write(entry, fd, bytes.data(), static_cast<unsigned>(bytes.size()), static_cast<uint64_t>(offset));
    io_uring_sqe_set_data64(entry, slot);
    int n;
    do n = io_uring_submit(&ring);
    while (n == -EINTR || n == -EAGAIN);
    require(n == 1, "io_uring_submit: it takes one write, got {}", n);
    ++in_flight;
  }
  // Waits for one write and returns its slot. Bytes that it did not write are written by write_all_at, which names the
  // error.
  unsigned wait(int fd, const std::string& path) {
    io_uring_cqe* done = nullptr;
    int code;
    do code = io_uring_wait_cqe(&ring, &done);
    while (code == -EINTR);
    require(code == 0, "io_uring_wait_cqe: it returns a write, got error {}", -code);
    const int wrote = done->res;
    const unsigned slot = finish_one(done);
    const size_t n = wrote > 0 ? static_cast<size_t>(wrote) / kBlock * kBlock : 0;
    if (n < pieces[slot].size()) write_all_at(fd, offsets[slot] + static_cast<int64_t>(n), pieces[slot].subspan(n), path);
    return slot;
  }

 private:
  unsigned finish_one(io_uring_cqe* done) {
    const auto slot = static_cast<unsigned>(io_uring_cqe_get_data64(done));
    io_uring_cqe_seen(&ring, done);
    --in_flight;
    return slot;
  }
  bool open = false;
};

DirectFile::DirectFile(std::string path, int64_t bytes)
    : path_(std::move(path)), bytes_(bytes), buffer_(DeviceKind::cpu, kBuffer) {
  fd_ = Fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd_) throw_system("create file", path_, errno);
  // Set after the open: an open that fails for O_DIRECT has already created the file.
  const int flags = ::fcntl(*fd_, F_GETFL);
  direct_ = flags >= 0 && ::fcntl(*fd_, F_SETFL, flags | O_DIRECT) == 0;
  int code;
  do code = bytes > 0 && ::fallocate(*fd_, 0, 0, bytes) != 0 ? errno : 0;
  while (code == EINTR);
  if (code != 0 && code != EOPNOTSUPP && code != ENOSYS)
    throw_system(fmt::format("reserve {}", human_bytes(static_cast<double>(bytes))), path_, code);
  if (direct_) ring_ = Ring::make();
}

DirectFile::~DirectFile() = default;

bool DirectFile::straight(std::span<const std::byte> bytes) const {
  if (!direct_) return static_cast<int64_t>(bytes.size()) >= kBuffer;
  return bytes.size() >= kBlock && reinterpret_cast<uintptr_t>(bytes.data()) % kBlock == 0 && staged_ % kBlock == 0;
}

void DirectFile::append(std::span<const std::byte> bytes, Checksum& sum) {
  require(static_cast<int64_t>(bytes.size()) <= bytes_ - position(),
          "DirectFile::append: '{}' has {} bytes left to write, got {}", path_, bytes_ - position(), bytes.size());
  while (!bytes.empty()) {
    if (straight(bytes)) {
      flush();
      const size_t n = bytes.size() / kBlock * kBlock;
      write_straight(bytes.first(n), sum);
      bytes = bytes.subspan(n);
      continue;
    }
    auto n = static_cast<size_t>(std::min<int64_t>(kBuffer - staged_, static_cast<int64_t>(bytes.size())));
    // Up to the next block, from where `bytes` may be written directly.
    const auto rest = static_cast<size_t>(round_up(staged_, kBlock) - staged_);
    if (direct_ && rest > 0 && rest < n && reinterpret_cast<uintptr_t>(bytes.data() + rest) % kBlock == 0) n = rest;
    std::memcpy(buffer_.data() + staged_, bytes.data(), n);
    sum.update(bytes.first(n));
    staged_ += static_cast<int64_t>(n);
    bytes = bytes.subspan(n);
    if (staged_ == kBuffer) flush();
  }
}

void DirectFile::write_straight(std::span<const std::byte> bytes, Checksum& sum) {
  for (unsigned slot = 0; !bytes.empty();) {
    const auto piece = bytes.first(std::min<size_t>(bytes.size(), kWrite));
    if (ring_) {
      if (ring_->in_flight == kDepth)
        slot = ring_->wait(*fd_, path_);
      else
        slot = ring_->in_flight;
      ring_->start(*fd_, slot, piece, at_);
      sum.update(piece);
    } else {
      sum.update(piece);
      write_all_at(*fd_, at_, piece, path_);
    }
    at_ += static_cast<int64_t>(piece.size());
    bytes = bytes.subspan(piece.size());
    // Starts writing, so that the page cache does not fill with dirty pages.
    if (!direct_ && at_ - flushed_ >= kDirty) {
      ::sync_file_range(*fd_, flushed_, at_ - flushed_, SYNC_FILE_RANGE_WRITE);
      flushed_ = at_;
    }
  }
}

void DirectFile::drain() {
  while (ring_ && ring_->in_flight > 0) ring_->wait(*fd_, path_);
}

void DirectFile::flush() {
  if (staged_ == 0) return;
  write_all_at(*fd_, at_, {buffer_.data(), static_cast<size_t>(staged_)}, path_);
  at_ += staged_;
  staged_ = 0;
}

void DirectFile::finish() {
  require(position() == bytes_, "DirectFile::finish: '{}' must have {} bytes, got {}", path_, bytes_, position());
  if (staged_ % kBlock != 0) {  // O_DIRECT writes whole blocks; ftruncate sets the size afterwards
    const int64_t full = round_up(staged_, kBlock);
    std::memset(buffer_.data() + staged_, 0, static_cast<size_t>(full - staged_));
    staged_ = full;
  }
  flush();
  drain();
  if (::ftruncate(*fd_, bytes_) != 0) throw_system("cut file", path_, errno);
  at_ = bytes_;
  sync_fd(*fd_, path_);
}

}  // namespace ravine

#include "files/straight_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/blocked_signals.h"
#include "base/checked.h"
#include "base/parallel.h"

namespace ravine {

void StraightWriter::Free::operator()(std::byte* p) const { std::free(p); }

StraightWriter::StraightWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

StraightWriter::~StraightWriter() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StraightWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    auto& buffer = buffers_[mine_];
    if (!buffer) {
      buffer.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePage, kBuffer)));
      if (!buffer) throw std::bad_alloc();
      ::madvise(buffer.get(), kBuffer, MADV_HUGEPAGE);  // asks for few long pieces; if it fails, nothing is lost
    }
    const size_t n = std::min(bytes.size(), kBuffer - filled_);
    constexpr size_t kPart = size_t{1} << 20;  // bytes that one thread copies
    parallel_for(ceil_div(static_cast<int64_t>(n), static_cast<int64_t>(kPart)), [&](int64_t i) {
      const size_t at = static_cast<size_t>(i) * kPart;
      std::memcpy(buffer.get() + filled_ + at, bytes.data() + at, std::min(kPart, n - at));
    });
    filled_ += n;
    bytes = bytes.subspan(n);
    if (filled_ == kBuffer) hand_over();
  }
}

void StraightWriter::hand_over() {
  if (!thread_.joinable()) {
    const int flags = ::fcntl(fd_, F_GETFL);
    direct_ = flags >= 0 && ::fcntl(fd_, F_SETFL, flags | O_DIRECT) == 0;
    const BlockedSignals blocked;
    thread_ = std::thread([this] { serve(); });
  }
  {
    std::lock_guard lock(mutex_);
    ++full_;
    mine_ = (mine_ + 1) % kBuffers, filled_ = 0;
  }
  changed_.notify_all();
  wait_until_at_most(kBuffers - 1);
}

void StraightWriter::wait_until_at_most(size_t full) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return full_ <= full; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void StraightWriter::finish() {
  if (thread_.joinable()) wait_until_at_most(0);
  if (direct_) ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_DIRECT);
  direct_ = false;
  if (filled_ > 0) put(buffers_[mine_].get(), filled_);
  filled_ = 0;
}

void StraightWriter::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || full_ > 0; });
    if (stop_ || error_) return;
    const std::byte* job = buffers_[(mine_ + kBuffers - full_) % kBuffers].get();
    lock.unlock();
    std::exception_ptr error;
    try {
      put(job, kBuffer);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) error_ = error;
    full_ = error ? 0 : full_ - 1;  // after an error, later buffers are not written
    changed_.notify_all();
  }
}

void StraightWriter::put(const std::byte* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd_, data, size);
    if (n < 0 && errno == EINTR) continue;
    // The device has larger blocks, or the rest of a short write is not aligned.
    if (n < 0 && errno == EINVAL && direct_) {
      ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_DIRECT);
      direct_ = false;
      continue;
    }
    if (n <= 0) throw_system("write file", path_, n < 0 ? errno : ENOSPC);
    data += n;
    size -= static_cast<size_t>(n);
  }
}

}  // namespace ravine

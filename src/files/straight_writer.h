// Writes to the end of a file past the page cache, in a thread. The caller computes the next bytes meanwhile. For files
// of many gigabytes.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "files/fd.h"

namespace ravine {

// Writes a file in a thread, from a ring of buffers: while one buffer is filled, the previous ones are written in
// order. The file must be empty. If the file system has no O_DIRECT, the writes use the page cache. An exception of the
// thread is thrown by the next call.
class StraightWriter {
 public:
  StraightWriter(int fd, std::string path);
  ~StraightWriter();  // waits for the current write; buffers that are not written yet are dropped
  StraightWriter(const StraightWriter&) = delete;
  StraightWriter& operator=(const StraightWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void finish();  // blocks until all bytes are written to the file; no write may follow

 private:
  static constexpr size_t kBuffer = size_t{4} << 20;
  static constexpr size_t kBuffers = 8;  // the producer works in bursts: a few buffers keep the disk busy
  static constexpr size_t kHugePage = size_t{2} << 20;
  struct Free {
    void operator()(std::byte* p) const;
  };
  void serve();
  void hand_over();
  void wait_until_at_most(size_t full);
  void put(const std::byte* data, size_t size);

  int fd_;
  std::string path_;
  bool direct_ = false;
  std::unique_ptr<std::byte, Free> buffers_[kBuffers];
  size_t mine_ = 0, filled_ = 0;  // index of the buffer that is filled, and its bytes
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t full_ = 0;  // buffers before mine_ that are not written yet
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ravine

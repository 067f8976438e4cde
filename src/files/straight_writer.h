// Bytes to the end of a file past the page cache, by a thread of its own, while the next ones are made: for files of many
// gigabytes.
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

// The file must be empty. A ring of buffers: while one is filled those before it are written, one after the other. Where the
// file system has no O_DIRECT, the same through the cache. Errors of the thread come out of the next call.
class StraightWriter {
 public:
  StraightWriter(int fd, std::string path);
  ~StraightWriter();  // waits for the write under way, drops the rest
  StraightWriter(const StraightWriter&) = delete;
  StraightWriter& operator=(const StraightWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void finish();  // all is handed to the file; no further write

 private:
  static constexpr size_t kBuffer = size_t{4} << 20;
  static constexpr size_t kBuffers = 8;  // what makes the bytes comes in bursts; the disk shall not wait for it
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
  size_t mine_ = 0, filled_ = 0;  // the one that is being filled, and how far
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t full_ = 0;  // buffers before mine_ that are not written yet
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ravine

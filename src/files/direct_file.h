// A file written front to back at the speed of the disk, past the page cache where the file system allows (O_DIRECT).
// Reading goes through the page cache: a checkpoint is read twice, once to verify it and once to place it, and what the first
// pass leaves in the cache makes the second one short. Past the cache one pass is faster (2 GB, two cores, cold: 0.7 s with a
// ring of four reads of 4 MiB, 1.0 s with preads of two threads), but both together are slower (1.4 s, not 1.1 s).
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "files/checksum.h"
#include "files/fd.h"

namespace ravine {

class DirectFile {
 public:
  static constexpr int64_t kBlock = 4096;

  // Creates `path`, which must not exist, and reserves its `bytes` on the disk: DiskFull comes here, before anything is
  // written.
  DirectFile(std::string path, int64_t bytes);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  // The next bytes, added to `sum` too. Memory whose address equals position() modulo kBlock goes to disk as it is, other
  // memory through a small buffer; it must stay as it is until drain() has returned, since writes go on beside the next append.
  void append(std::span<const std::byte> bytes, Checksum& sum);
  void drain();   // blocks until nothing that was appended is read any more
  void finish();  // all bytes must be there; blocks until they are on the disk

  int64_t position() const { return at_ + staged_; }

 private:
  struct Ring;
  bool straight(std::span<const std::byte> bytes) const;
  void write_straight(std::span<const std::byte> bytes, Checksum& sum);
  void flush();

  std::string path_;
  int64_t bytes_;
  Fd fd_;
  bool direct_ = false;
  int64_t at_ = 0, staged_ = 0;  // written; waiting in the buffer
  int64_t flushed_ = 0;          // handed to the disk, without O_DIRECT
  Storage buffer_;
  std::unique_ptr<Ring> ring_;  // null: io_uring is not to be had
};

}  // namespace ravine

// A file mapped as read-only memory. The kernel reads pages when they are touched and drops them if memory is short.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "files/fd.h"

namespace ravine {

// A read-only mapping of a file. An empty file is an empty span. Const members are thread-safe. The file must not
// shrink while it is mapped: see name_cut_files.
class MappedFile {
 public:
  enum class Use { random, sequential, any };  // how the file will be read: a hint
  MappedFile() = default;
  explicit MappedFile(std::string path, Use use = Use::random);       // UserError if it cannot be opened
  MappedFile(std::string path, const Fd& fd, int64_t size, Use use);  // maps an open file of `size` bytes
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Tells the kernel to begin to read `part` of bytes(), which is read soon from front to back.
  void will_read(std::span<const std::byte> part) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* noted_ = nullptr;  // entry in the list that the handler of SIGBUS searches
};

// Installs a handler of SIGBUS, which a read of a mapped file raises behind its new end if the file was cut. The
// handler prints a line that names the file and exits with status 1. Any other SIGBUS ends the process as before.
void name_cut_files();

// Throws an Error that names the first mapped file that is shorter now than when it was mapped. This check is needed:
// the cut part of a page reads as zeros, without a signal. A replaced file (another file has its path) is no error.
void check_mapped_files();

// Registers `size` bytes of mapped memory at `at` that are no MappedFile: a SIGBUS in them prints `line` and exits with
// status 1. Returns the handle for forget_mapping, which ends this.
void* note_mapping(std::string line, const void* at, size_t size);
void forget_mapping(void* noted);

}  // namespace ravine

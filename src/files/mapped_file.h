// A file as read-only memory; the kernel reads what is touched and drops it when memory is short.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "files/fd.h"

namespace ravine {

// The file must not shrink while it is mapped: see name_cut_files. An empty file is an empty span. Const members may be called
// by many threads.
class MappedFile {
 public:
  enum class Use { random, sequential, any };  // how it will be read; a hint
  MappedFile() = default;
  explicit MappedFile(std::string path, Use use = Use::random);       // what cannot be opened is a UserError
  MappedFile(std::string path, const Fd& fd, int64_t size, Use use);  // of an open file of that size
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  void will_read(std::span<const std::byte> part) const;  // a part of bytes() is about to be read in order: fetched ahead
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* noted_ = nullptr;  // in the list that the handler of SIGBUS looks through
};

// Reading a mapped file beyond where it was cut is SIGBUS. From this call on it ends the process with status 1 and a line on
// stderr that names the file; any other SIGBUS ends it as before.
void name_cut_files();

// Bytes that a cut took from a page that is partly left read as zeros, without a signal: an Error that names the first mapped
// file that is shorter now than when it was mapped. A file that was replaced (another one has its name) is as it was.
void check_mapped_files();

// Of memory over a file that is no MappedFile: SIGBUS in it writes `line` and ends the process the same way, until it is forgotten.
void* note_mapping(std::string line, const void* at, size_t size);
void forget_mapping(void* noted);

}  // namespace ravine

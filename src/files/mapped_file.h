// A file as read-only memory; the kernel reads what is touched and drops it when memory is short.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "files/fd.h"

namespace ravine {

// The file must not shrink while it is mapped. An empty file is an empty span. Const members may be called by many threads.
class MappedFile {
 public:
  enum class Use { random, sequential };  // how it will be read; a hint
  MappedFile() = default;
  explicit MappedFile(std::string path, Use use = Use::random);  // what cannot be opened is a UserError
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
};

}  // namespace ravine

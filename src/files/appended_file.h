// A file that grows record by record while others may read it.
#pragma once
#include <string>
#include <string_view>

#include "files/fd.h"

namespace ravine {

class AppendedFile {
 public:
  AppendedFile() = default;
  AppendedFile(Fd fd, std::string path);  // open for writing; records go behind what it holds
  // The record as a whole or, if there is no room for it, nothing of it: what was written is cut off again, so that a later
  // record follows the one before. DiskFull, Error.
  void append(std::string_view record);
  int64_t size() const { return size_; }
  void cut(int64_t size);  // back to what it held when it was so long
  const std::string& path() const { return path_; }

 private:
  Fd fd_;
  std::string path_;
  int64_t size_ = 0;
};

}  // namespace ravine

// A file that grows record by record while other processes may read it.
#pragma once
#include <string>
#include <string_view>

#include "files/fd.h"

namespace ravine {

class AppendedFile {
 public:
  AppendedFile() = default;
  AppendedFile(Fd fd, std::string path);  // `fd` is open for writing; records follow its content
  // Appends the whole record. If the write fails (DiskFull, Error), the file is cut back to its old size. The next
  // record then follows the previous one.
  void append(std::string_view record);
  int64_t size() const { return size_; }
  void cut(int64_t size);  // cuts the file to its first `size` bytes; Error if it has fewer
  const std::string& path() const { return path_; }

 private:
  Fd fd_;
  std::string path_;
  int64_t size_ = 0;
};

}  // namespace ravine

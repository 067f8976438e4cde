#include "files/appended_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ravine {

AppendedFile::AppendedFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {
  struct stat s {};
  if (::fstat(*fd_, &s) != 0) throw_system("open file", path_, errno);
  size_ = s.st_size;
}

void AppendedFile::append(std::string_view record) {
  try {
    write_all_at(*fd_, size_, std::as_bytes(std::span(record)), path_);
  } catch (const Error&) {
    if (::ftruncate(*fd_, size_) != 0) throw;
    throw;
  }
  size_ += static_cast<int64_t>(record.size());
}

void AppendedFile::cut(int64_t size) {
  require(size <= size_, "{}: {} bytes are not its beginning, it has {}", path_, size, size_);
  if (::ftruncate(*fd_, size) != 0) throw_system("shorten file", path_, errno);
  size_ = size;
}

}  // namespace ravine

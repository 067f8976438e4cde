// A file descriptor that closes itself, and whole reads and writes with errors that name the path.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"

namespace ravine {

// No room left for what was being written (disk, quota or size limit). `path` is the file; what it replaced is untouched.
struct DiskFull : Error {
  DiskFull(const std::string& op, const std::string& path, const std::string& why);
  std::string path;
};

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { close(); }
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  int operator*() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();
  int release();

 private:
  int fd_ = -1;
};

// Throws what errno `code` means for `op` on `path`: DiskFull; UserError for a path that does not exist, may not be used or is
// of the wrong kind; Error for everything else.
[[noreturn]] void throw_system(const std::string& op, const std::string& path, int code);
// With its parents, each of them on the disk when this returns; one that is there already is fine.
void create_folders(const std::string& path);

Fd open_to_read(const std::string& path, int64_t* size);  // a regular file and its size; anything else is a UserError
Fd create_file(const std::string& path);                  // new or emptied, for reading and writing; never through a link

// All of `bytes`, or an exception. The first writes at the file's position, the second at `offset`.
void write_all(int fd, std::span<const std::byte> bytes, const std::string& path);
void write_all_at(int fd, int64_t offset, std::span<const std::byte> bytes, const std::string& path);

size_t read_some(int fd, std::span<std::byte> into, const std::string& path);  // 0 only at the end
void read_all_at(int fd, int64_t offset, std::span<std::byte> into, const std::string& path);

void sync_fd(int fd, const std::string& path);   // until the bytes are on the disk
void sync_folder(const std::string& folder);     // until the names in it are
std::string folder_of(const std::string& path);  // "a/b" -> "a", "b" -> "."

}  // namespace ravine

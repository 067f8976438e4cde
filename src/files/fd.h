// A file descriptor with an owner, and complete reads and writes whose errors name the path.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"

namespace ravine {

// The error of a write that failed for lack of room: on the disk, in a quota, or under a limit on file sizes. `path` is
// the file to be written; an older file of this name is unchanged.
struct DiskFull : Error {
  DiskFull(const std::string& op, const std::string& path, const std::string& why);
  std::string path;
};

// Owns a file descriptor and closes it.
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

// Throws the error of errno `code` after `op` on `path`: DiskFull if there is no room; UserError if the path does not
// exist, is not permitted or is of the wrong kind; else Error.
[[noreturn]] void throw_system(const std::string& op, const std::string& path, int code);
// Creates a folder and its parents, and syncs each of them. An existing folder is no error. UserError for a link to a
// missing folder.
void create_folders(const std::string& path);

Fd open_to_read(const std::string& path, int64_t* size);  // opens a regular file and sets its size; else UserError
Fd create_file(const std::string& path);  // creates or empties a file, for reading and writing; does not follow a link

// Write all of `bytes` or throw: write_all at the position of the file, write_all_at at byte `offset`. `path` is for
// messages.
void write_all(int fd, std::span<const std::byte> bytes, const std::string& path);
void write_all_at(int fd, int64_t offset, std::span<const std::byte> bytes, const std::string& path);

// Reads at most into.size() bytes at the position of the file, and returns their number; 0 only at the end of the file.
size_t read_some(int fd, std::span<std::byte> into, const std::string& path);
void read_all_at(int fd, int64_t offset, std::span<std::byte> into, const std::string& path);

void sync_fd(int fd, const std::string& path);   // blocks until the bytes are on the disk
void sync_folder(const std::string& folder);     // blocks until the names in the folder are on the disk
std::string folder_of(const std::string& path);  // "a/b" -> "a", "b" -> "."

}  // namespace ravine

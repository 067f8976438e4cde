#include "files/fd.h"

#include "base/lfs_pointer.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "files/disk_space.h"
#include "files/mapped_file.h"

namespace ravine {
namespace {

std::string room_text(const std::string& path) {
  const auto room = free_space(path);
  return room ? fmt::format(" ({} free)", human_bytes(static_cast<double>(*room))) : "";
}

// The reason of a DiskFull in which the free space plays no role.
constexpr std::string_view kTooLarge = "the limit on file sizes";

std::string too_large() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return fmt::format("{} of its file system is reached", kTooLarge);
  return fmt::format("{} of this process is {} (ulimit -f); raise it", kTooLarge,
                     human_bytes(static_cast<double>(limit.rlim_cur)));
}

}  // namespace

DiskFull::DiskFull(const std::string& op, const std::string& path, const std::string& why)
    : Error(why.starts_with(kTooLarge) ? fmt::format("{}: '{}' cannot grow: {}", op, path, why)
                                       : fmt::format("{}: no room left for '{}'{}, got: {}", op, path, room_text(path), why)),
      path(path) {}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

void Fd::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

int Fd::release() { return std::exchange(fd_, -1); }

void throw_system(const std::string& op, const std::string& path, int code) {
  const std::string why = std::generic_category().message(code);
  switch (code) {
    case EFBIG:
      throw DiskFull(op, path, too_large());
    case ENOSPC:
    case EDQUOT:
      throw DiskFull(op, path, why);
    case ENOENT:
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case EEXIST:
    case ENOTEMPTY:
    case ENAMETOOLONG:
      throw UserError("cannot " + op, path, why, "check the path and its permissions");
    case EFAULT:  // the bytes came from a mapped file: report this file
      check_mapped_files();
      [[fallthrough]];
    default:
      fail("{}: '{}' failed, got: {}", op, path, why);
  }
}

void create_folders(const std::string& path) {
  if (path.empty())
    throw UserError("the name of a folder is empty", "output", "a folder has a name", "give one, or . for this folder");
  std::error_code error;
  std::vector<std::string> missing;  // innermost first
  for (std::filesystem::path p = path; !p.empty() && !std::filesystem::exists(p, error); p = p.parent_path()) {
    if (std::filesystem::is_symlink(p, error))
      throw UserError(fmt::format("{}link to '{}', which is not there", p == path ? "" : fmt::format("'{}' is a ", p.string()),
                                  std::filesystem::read_symlink(p, error).string()),
                      path, "a folder is not made through a link", "remove the link, or make the folder that it names");
    if (p.has_filename()) missing.push_back(p.string());
    if (p == p.parent_path()) break;
  }
  std::filesystem::create_directories(path, error);
  if (error) throw_system("create folder", path, error.value());
  for (const std::string& made : missing) sync_folder(folder_of(made));
}

Fd open_to_read(const std::string& path, int64_t* size) {
  // O_NONBLOCK: without it the open of a pipe waits for a writer.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw_system("open file", path, errno);
  struct stat s;
  if (::fstat(*fd, &s) != 0) throw_system("open file", path, errno);
  if (!S_ISREG(s.st_mode)) throw UserError("cannot open file", path, "it must be a regular file", "check the path");
  *size = s.st_size;
  if (s.st_size < static_cast<off_t>(kLfsPointer)) {
    char head[64];
    const ssize_t n = ::pread(*fd, head, sizeof head, 0);
    if (n > 0) refuse_lfs_pointer({head, static_cast<size_t>(n)}, path);
  }
  return fd;
}

Fd create_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd) throw_system("create file", path, errno);
  return fd;
}

namespace {
constexpr size_t kPiece = size_t{1} << 30;  // Linux moves at most 2 GiB in one call
}

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), kPiece));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_system("write file", path, n < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void write_all_at(int fd, int64_t offset, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t n = ::pwrite(fd, bytes.data(), std::min(bytes.size(), kPiece), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_system("write file", path, n < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
}

size_t read_some(int fd, std::span<std::byte> into, const std::string& path) {
  for (;;) {
    ssize_t n = ::read(fd, into.data(), std::min(into.size(), kPiece));
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) throw_system("read file", path, errno);
  }
}

void read_all_at(int fd, int64_t offset, std::span<std::byte> into, const std::string& path) {
  while (!into.empty()) {
    ssize_t n = ::pread(fd, into.data(), std::min(into.size(), kPiece), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_system("read file", path, errno);
    require(n != 0, "read file: '{}' must hold {} more bytes at offset {}, got its end", path, into.size(), offset);
    into = into.subspan(static_cast<size_t>(n));
    offset += n;
  }
}

void sync_fd(int fd, const std::string& path) {
  while (::fsync(fd) != 0)
    if (errno != EINTR) throw_system("sync file", path, errno);
}

void sync_folder(const std::string& folder) {
  Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) throw_system("open folder", folder, errno);
  // Some network file systems refuse fsync of a folder; the rename is then as durable as this file system allows.
  if (::fsync(*fd) != 0 && errno != EINVAL && errno != EROFS) throw_system("sync folder", folder, errno);
}

std::string folder_of(const std::string& path) {
  size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace ravine

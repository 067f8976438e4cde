#include "files/folder_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

#include "base/host_name.h"
#include "files/folder_mark.h"
#include "files/temporary.h"

namespace ravine {
namespace {

constexpr int kTries = 20;
constexpr std::string_view kLockMark = "ravine lock: process ";
constexpr auto kPause = std::chrono::milliseconds(10);

struct Holder {
  long pid = 0;
  std::string host;
};

// The content of Ravine's lock files. A lock has it from its first moment on.
std::string lock_text() { return fmt::format("{}{} {}\n", kLockMark, ::getpid(), host_name()); }

Holder read_holder(int fd) {
  std::array<char, 300> text{};
  ssize_t n = ::pread(fd, text.data(), text.size() - 1, 0);
  Holder holder;
  if (n <= 0) return holder;
  const char* at = text.data();
  if (std::string_view(at, static_cast<size_t>(n)).starts_with(kLockMark)) at += kLockMark.size();
  char* rest = nullptr;
  holder.pid = std::strtol(at, &rest, 10);
  for (; *rest; ++rest)
    if (*rest > ' ' && *rest < 127) holder.host += *rest;
  return holder;
}

std::string to_text(const Holder& holder) {
  return holder.pid > 0 ? fmt::format("process {} on {}", holder.pid, holder.host) : "another process";
}

[[noreturn]] void refuse_lock(const std::string& folder, const Holder& holder) {
  throw UserError("output folder is in use", folder, fmt::format("{} is writing to it", to_text(holder)),
                  "stop that run or choose another folder");
}

// Returns the temporary name that a lock still has if its process was killed between link and unlink; "" if it has
// none.
std::string second_name(const struct stat& s, const std::string& folder) {
  std::error_code error;
  if (s.st_nlink != 2) return "";
  for (auto it = std::filesystem::directory_iterator(folder, error); !error && it != std::filesystem::directory_iterator();
       it.increment(error)) {
    const auto name = parse_temporary(it->path().filename().string());
    struct stat other {};
    if (name && name->target == ".lock" && ::lstat(it->path().c_str(), &other) == 0 && other.st_ino == s.st_ino &&
        other.st_dev == s.st_dev)
      return it->path().string();
  }
  return "";
}

// Throws a UserError if the file named .lock is not Ravine's: it belongs to the user and is neither written nor
// removed. A lock of an earlier version, or an empty one after a power failure, is accepted only in a folder with
// Ravine's mark.
void refuse_other_file(int fd, const struct stat& s, const std::string& folder) {
  std::array<char, 300> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  const std::string_view text_in_file(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
  const bool plain =
      S_ISREG(s.st_mode) && (s.st_nlink <= 1 || !second_name(s, folder).empty()) && text_in_file.size() < text.size();
  if (plain && text_in_file.starts_with(kLockMark) && text_in_file.find('\n') >= text_in_file.size() - 1) return;
  const size_t digits = std::min(text_in_file.find_first_not_of("0123456789"), text_in_file.size());
  const bool earlier = digits > 0 && (digits == text_in_file.size() || text_in_file[digits] == ' ') &&
                       text_in_file.find('\n') >= text_in_file.size() - 1,
             lost = text_in_file.find_first_not_of('\0') == std::string_view::npos;
  if (plain && (earlier || lost) && read_mark(folder)) return;
  throw UserError("a file has the name of the lock", folder + "/.lock",
                  "this name is for Ravine's lock, a plain file that names the process which uses the folder",
                  "move it, or choose another folder");
}

// Creates a lock that has its content and is held when it gets its name. Returns no file if the name is taken.
Fd create_lock(const std::string& path, const std::string& folder) {
  const std::string text = lock_text();
  if (Fd nameless = create_nameless_file(folder)) {
    write_all(*nameless, std::as_bytes(std::span(text)), path);
    sync_fd(*nameless, path);
    if (::linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", *nameless).c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0)
      return sync_folder(folder), std::move(nameless);
    if (errno == EEXIST) return {};
  }
  std::string temporary;
  Fd fd = create_temporary_file(path, &temporary);
  struct Removed {
    const std::string& path;
    ~Removed() {
      if (!path.empty()) ::unlink(path.c_str());
    }
  } removed{temporary};
  write_all(*fd, std::as_bytes(std::span(text)), path);
  sync_fd(*fd, path);
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
    temporary.clear();
    sync_folder(folder);
    return fd;
  }
  if (errno == EEXIST) return {};
  if (errno != EINVAL && errno != ENOSYS) throw_system("lock folder", folder, errno);
  if (::link(temporary.c_str(), path.c_str()) == 0) return fd;
  if (errno == EEXIST) return {};
  throw_system("lock folder", folder, errno);
}

bool has_name(int fd, const std::string& path) {
  struct stat mine, named;
  return ::fstat(fd, &mine) == 0 && ::lstat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
         mine.st_dev == named.st_dev;
}

bool is_gone(const Holder& holder) {
  return holder.pid <= 0 || (holder.host == host_name() && ::kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno == ESRCH);
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : path_(folder + "/.lock") {
  for (int tries = 0;;) {
    Fd fd(::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd && errno == ELOOP)
      throw UserError("a link has the name of the lock", path_, "locks are not followed out of their folder",
                      "remove it, or choose another folder");
    if (!fd && errno != ENOENT) throw_system("lock folder", folder, errno);
    const bool made = !fd;
    if (made) fd = create_lock(path_, folder);
    if (!fd) continue;
    if (::flock(*fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) {
        // folder_holder() locks the file for an instant: try again before refusing.
        if (++tries > kTries) refuse_lock(folder, read_holder(*fd));
        std::this_thread::sleep_for(kPause);
        continue;
      }
      if (errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        throw_system("lock folder", folder, errno);
      Holder holder = read_holder(*fd);
      if (!made && !is_gone(holder)) refuse_lock(folder, holder);
    }
    // The previous holder may have removed the file between open and flock: then the lock has no effect.
    struct stat mine;
    if (::fstat(*fd, &mine) != 0) throw_system("lock folder", folder, errno);
    if (!has_name(*fd, path_)) continue;
    if (!made) {
      refuse_other_file(*fd, mine, folder);
      if (const std::string other = second_name(mine, folder); !other.empty()) ::unlink(other.c_str());
      const std::string text = lock_text();
      if (::ftruncate(*fd, 0) != 0) throw_system("lock folder", folder, errno);
      write_all_at(*fd, 0, std::as_bytes(std::span(text)), path_);
    }
    fd_ = std::move(fd);
    return;
  }
}

std::optional<std::string> folder_holder(const std::string& folder) {
  const std::string path = folder + "/.lock";
  // The open of a pipe would wait for a writer.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ENOENT) return {};
  if (!fd) throw_system("look at the lock of", folder, errno);
  struct stat s;
  if (::fstat(*fd, &s) != 0) throw_system("look at the lock of", folder, errno);
  refuse_other_file(*fd, s, folder);
  const Holder holder = read_holder(*fd);
  int code;
  do code = ::flock(*fd, LOCK_SH | LOCK_NB) != 0 ? errno : 0;
  while (code == EINTR);
  if (code == 0) return {};
  if (code != EWOULDBLOCK && is_gone(holder)) return {};
  return to_text(holder);
}

bool FolderLock::in_place() const {
  struct stat named;
  if (::lstat(path_.c_str(), &named) != 0)
    return errno != ENOENT && errno != ENOTDIR;  // after other errors of the disk the lock is assumed to be in place
  return has_name(*fd_, path_);
}

FolderLock::~FolderLock() {
  if (in_place()) ::unlink(path_.c_str());
}

}  // namespace ravine

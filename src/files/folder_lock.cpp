#include "files/folder_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/host_name.h"

namespace ravine {
namespace {

constexpr int kTries = 20;
constexpr auto kPause = std::chrono::milliseconds(10);

struct Holder {
  long pid = 0;
  std::string host;
};

Holder read_holder(int fd) {
  std::array<char, 300> text{};
  ssize_t n = ::pread(fd, text.data(), text.size() - 1, 0);
  Holder holder;
  if (n <= 0) return holder;
  char* rest = nullptr;
  holder.pid = std::strtol(text.data(), &rest, 10);
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

// A file of this name that is not a lock is the user's: it is neither written nor removed. A kill or a power loss may have left a lock of ours
// short, or full of zeros.
void refuse_other_file(int fd, const struct stat& s, const std::string& path) {
  std::array<char, 300> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  const std::string_view said(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
  const size_t digits = std::min(said.find_first_not_of("0123456789"), said.size());
  const bool short_enough = said.size() < text.size(), lock = said.empty() || (digits > 0 && (digits == said.size() || said[digits] == ' ') && said.find('\n') >= said.size() - 1);
  const bool damaged = std::any_of(said.begin(), said.end(), [](char c) { return c == 0 || c == '\x7f' || static_cast<unsigned char>(c) >= 0xfe; });
  if (!S_ISREG(s.st_mode) || s.st_nlink > 1 || !short_enough || (!lock && !damaged))
    throw UserError("a file has the name of the lock", path, "only a lock of ours may have it: a plain file that says who holds the folder", "move it, or choose another folder");
}

bool is_gone(const Holder& holder) {
  return holder.pid <= 0 || (holder.host == host_name() && ::kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno == ESRCH);
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : path_(folder + "/.lock") {
  for (int tries = 0;;) {
    Fd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
    if (!fd && errno == ELOOP) throw UserError("a link has the name of the lock", path_, "locks are not followed out of their folder", "remove it, or choose another folder");
    if (!fd) throw_system("lock folder", folder, errno);
    if (::flock(*fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) {
        // Who only looks (folder_holder) has it for an instant: that is no reason to refuse.
        if (++tries > kTries) refuse_lock(folder, read_holder(*fd));
        std::this_thread::sleep_for(kPause);
        continue;
      }
      if (errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        throw_system("lock folder", folder, errno);
      Holder holder = read_holder(*fd);
      if (!is_gone(holder)) refuse_lock(folder, holder);
    }
    // The one who held it may have removed the file between our open and our lock: then the lock is on nothing.
    struct stat mine, named;
    if (::fstat(*fd, &mine) != 0) throw_system("lock folder", folder, errno);
    if (::lstat(path_.c_str(), &named) != 0 || mine.st_ino != named.st_ino || mine.st_dev != named.st_dev) continue;
    refuse_other_file(*fd, mine, path_);
    if (::ftruncate(*fd, 0) != 0) throw_system("lock folder", folder, errno);
    const std::string text = fmt::format("{} {}\n", ::getpid(), host_name());
    write_all_at(*fd, 0, std::as_bytes(std::span(text)), path_);
    fd_ = std::move(fd);
    return;
  }
}

std::optional<std::string> folder_holder(const std::string& folder) {
  const std::string path = folder + "/.lock";
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));  // the open of a pipe would wait for a writer
  if (!fd && errno == ENOENT) return {};
  if (!fd) throw_system("look at the lock of", folder, errno);
  struct stat s;
  if (::fstat(*fd, &s) != 0) throw_system("look at the lock of", folder, errno);
  refuse_other_file(*fd, s, path);
  const Holder holder = read_holder(*fd);
  int code;
  do code = ::flock(*fd, LOCK_SH | LOCK_NB) != 0 ? errno : 0;
  while (code == EINTR);
  if (code == 0) return {};
  if (code != EWOULDBLOCK && is_gone(holder)) return {};
  return to_text(holder);
}

FolderLock::~FolderLock() { ::unlink(path_.c_str()); }

}  // namespace ravine

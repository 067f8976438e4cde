#include "files/folder_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace ravine {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

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

[[noreturn]] void refuse_lock(const std::string& folder, const Holder& holder) {
  const std::string who = holder.pid > 0 ? fmt::format("process {} on {}", holder.pid, holder.host) : "another process";
  throw UserError("output folder is in use", folder, fmt::format("{} is writing to it", who),
                  "stop that run or choose another folder");
}

bool is_gone(const Holder& holder) {
  return holder.pid <= 0 || (holder.host == host_name() && ::kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno == ESRCH);
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : path_(folder + "/.lock") {
  for (;;) {
    Fd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!fd) throw_system("lock folder", folder, errno);
    if (::flock(*fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) refuse_lock(folder, read_holder(*fd));
      if (errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        throw_system("lock folder", folder, errno);
      Holder holder = read_holder(*fd);
      if (!is_gone(holder)) refuse_lock(folder, holder);
    }
    // The one who held it may have removed the file between our open and our lock: then the lock is on nothing.
    struct stat mine, named;
    if (::fstat(*fd, &mine) != 0) throw_system("lock folder", folder, errno);
    if (::stat(path_.c_str(), &named) != 0 || mine.st_ino != named.st_ino || mine.st_dev != named.st_dev) continue;
    if (::ftruncate(*fd, 0) != 0) throw_system("lock folder", folder, errno);
    const std::string text = fmt::format("{} {}\n", ::getpid(), host_name());
    write_all_at(*fd, 0, std::as_bytes(std::span(text)), path_);
    fd_ = std::move(fd);
    return;
  }
}

FolderLock::~FolderLock() { ::unlink(path_.c_str()); }

}  // namespace ravine

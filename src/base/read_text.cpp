#include "base/read_text.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/lfs_pointer.h"
#include "base/missing_path.h"

namespace ravine {
namespace {

constexpr int kPatience = 10'000;  // ms until a pipe without input is an error

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::string read_text(const std::string& path, int64_t limit, const std::string& what) {
  auto refuse = [&](const std::string& rule, const std::string& fix) {
    throw UserError("cannot read " + what, path, rule, fix);
  };
  auto failed = [&](int code) { refuse(std::generic_category().message(code), "check the path and its permissions"); };
  // O_NONBLOCK: without it the open of a pipe waits for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.fd < 0 && errno == ENOENT) refuse(std::generic_category().message(ENOENT), missing_path_advice(path));
  if (file.fd < 0) failed(errno);
  struct stat s;
  if (::fstat(file.fd, &s) != 0) failed(errno);
  if (S_ISDIR(s.st_mode)) refuse("it is a folder", "name a file in it");
  if (!S_ISREG(s.st_mode) && !S_ISFIFO(s.st_mode)) refuse("it is neither a file nor a pipe", "check the path");
  auto too_large = [&](const std::string& has) {
    refuse(fmt::format("it may have {} bytes at most, {}", limit, has), "check that this is the file you meant");
  };
  if (S_ISREG(s.st_mode) && s.st_size > limit) too_large(fmt::format("it has {}", s.st_size));
  std::string text;
  if (S_ISREG(s.st_mode)) text.reserve(static_cast<size_t>(s.st_size));
  for (char buffer[1 << 14];;) {
    if (S_ISFIFO(s.st_mode)) {
      pollfd waiting{file.fd, POLLIN, 0};
      const int ready = ::poll(&waiting, 1, kPatience);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0)
        refuse(fmt::format("nothing came through this pipe for {} seconds", kPatience / 1000),
               "name a file, or write into the pipe");
    }
    const ssize_t n = ::read(file.fd, buffer, sizeof buffer);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) failed(errno);
    if (n == 0) {
      refuse_lfs_pointer(text, path);
      return text;
    }
    text.append(buffer, static_cast<size_t>(n));
    if (static_cast<int64_t>(text.size()) > limit) too_large("more came");
  }
}

}  // namespace ravine

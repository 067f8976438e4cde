#include "files/read_head.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <span>

#include "files/fd.h"

namespace ravine {

std::string read_head(const std::string& path, size_t most) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) return "";
  // O_NONBLOCK: if a pipe has replaced the file, its open does not wait for a writer.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw_system("open file", path, errno);
  if (::fstat(*fd, &s) != 0) throw_system("open file", path, errno);
  if (!S_ISREG(s.st_mode)) return "";
  std::string head(most, '\0');
  size_t have = 0;
  while (have < most) {
    const size_t n = read_some(*fd, std::as_writable_bytes(std::span(head).subspan(have)), path);
    if (n == 0) break;
    have += n;
  }
  head.resize(have);
  return head;
}

}  // namespace ravine

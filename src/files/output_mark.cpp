#include "files/output_mark.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "files/fd.h"

namespace ravine {

void refuse_other_output(const std::string& path, const OutputMark& mark, bool overwrite) {
  struct stat s {};
  if (overwrite || ::lstat(path.c_str(), &s) != 0) return;
  auto refuse = [&](const std::string& what) {
    throw UserError("output exists", path, fmt::format("{}, and unasked only {} or an empty file is replaced", what, mark.kind),
                    "choose another name, or add --overwrite");
  };
  const bool link = S_ISLNK(s.st_mode);
  if (link && ::stat(path.c_str(), &s) != 0) refuse("it is a link that leads nowhere");
  if (!S_ISREG(s.st_mode)) return;  // AtomicFile says what it is
  if (link) refuse("it is a link");
  if (s.st_size == 0) return;
  Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) throw_system("look at the file that is there,", path, errno);
  std::array<char, kOutputMarkWithin> head{};
  const size_t n = read_some(*fd, std::as_writable_bytes(std::span(head)), path);
  if (std::string_view(head.data(), n).find(mark.text) == std::string_view::npos) refuse("it is something else");
}

MayReplace may_replace_output(const OutputMark& mark, bool overwrite) {
  return [&mark, overwrite](const std::string& path) { refuse_other_output(path, mark, overwrite); };
}

}  // namespace ravine

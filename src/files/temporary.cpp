#include "files/temporary.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "base/cut_text.h"
#include "base/log.h"
#include "base/text.h"
#include "files/checksum.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr std::string_view kMark = ".ravine-";
constexpr size_t kRandom = 16, kCheck = 8, kEnd = 4;
constexpr size_t kLongestName = 120;  // bytes of the file's own name; the whole name must stay below 255

std::string check_digits(const std::string& before) {
  return checksum_text(checksum_of(std::as_bytes(std::span(before)))).substr(0, kCheck);
}

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

std::string shortened(const std::string& name) { return std::string(cut_text(name, kLongestName)); }

// Locks a new file. A failure is ignored: a file system without locks relies on the lock of the folder.
void hold(const Fd& fd) { static_cast<void>(::flock(*fd, LOCK_EX | LOCK_NB)); }

}  // namespace

std::string random_digits() {
  uint64_t value = 0;
  for (size_t had = 0; had < sizeof value;) {
    const ssize_t n = ::getrandom(reinterpret_cast<char*>(&value) + had, sizeof value - had, 0);
    require(n > 0 || errno == EINTR, "getrandom: the kernel gives random bytes, got error {}", errno);
    if (n > 0) had += static_cast<size_t>(n);
  }
  return checksum_text(value);
}

std::string temporary_path(const std::string& target, const std::string& digits, bool replaced) {
  require(digits.size() == kRandom && is_hex(digits), "temporary_path: 16 hexadecimal digits, got '{}'", digits);
  const size_t slash = target.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "" : target.substr(0, slash + 1);
  const std::string name = target.substr(folder.size()) + std::string(kMark) + digits;
  const char* end = replaced ? ".old" : ".tmp";
  return folder + name + check_digits(name + end) + end;
}

std::optional<TemporaryName> parse_temporary(const std::string& name) {
  if (name.size() <= kMark.size() + kRandom + kCheck + kEnd) return {};
  const std::string end = name.substr(name.size() - kEnd), digits = name.substr(name.size() - kEnd - kCheck, kCheck);
  const std::string before = name.substr(0, name.size() - kEnd - kCheck);
  const size_t mark = before.size() - kRandom - kMark.size();
  if ((end != ".tmp" && end != ".old") || before.substr(mark, kMark.size()) != kMark ||
      !is_hex(before.substr(mark + kMark.size())) || digits != check_digits(before + end))
    return {};
  return TemporaryName{before.substr(0, mark), end == ".old"};
}

Fd create_temporary_file(const std::string& target, std::string* path) {
  const size_t slash = target.find_last_of('/'), begin = slash == std::string::npos ? 0 : slash + 1;
  const std::string near = target.substr(0, begin) + shortened(target.substr(begin));
  for (;;) {
    *path = temporary_path(near, random_digits());
    Fd fd(::open(path->c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!fd && errno == EEXIST) continue;
    if (!fd) throw_system("create file", target, errno);
    const bool taken = ::flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat s {};
    if (taken || (::fstat(*fd, &s) == 0 && s.st_nlink == 0)) continue;  // remove_left_files removed it before the lock
    return fd;
  }
}

Fd create_nameless_file(const std::string& folder) {
  static const bool nameable = ::access("/proc/self/fd", X_OK) == 0;
  Fd fd(nameable ? ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1);
  if (fd) hold(fd);
  return fd;
}

void name_file(int fd, const std::string& target, std::string* path) {
  const size_t slash = target.find_last_of('/'), begin = slash == std::string::npos ? 0 : slash + 1;
  const std::string near = target.substr(0, begin) + shortened(target.substr(begin)),
                    open = fmt::format("/proc/self/fd/{}", fd);
  do {
    *path = temporary_path(near, random_digits());
    if (::linkat(AT_FDCWD, open.c_str(), AT_FDCWD, path->c_str(), AT_SYMLINK_FOLLOW) == 0) return;
  } while (errno == EEXIST);
  // The file system has nameless files, but no linkat of them: copy the content.
  Fd copy = create_temporary_file(target, path);
  std::vector<std::byte> piece(size_t{1} << 20);
  for (int64_t at = 0;;) {
    const ssize_t n = ::pread(fd, piece.data(), piece.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_system("read file", target, errno);
    if (n == 0) break;
    write_all(*copy, std::span(piece).first(static_cast<size_t>(n)), target);
    at += n;
  }
  sync_fd(*copy, target);
}

void remove_left_files(const std::string& target) {
  const size_t slash = target.find_last_of('/'), begin = slash == std::string::npos ? 0 : slash + 1;
  const std::string wanted = shortened(target.substr(begin));
  std::error_code error;
  for (auto it = fs::directory_iterator(folder_of(target), error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const auto name = parse_temporary(it->path().filename().string());
    if (!name || name->replaced || name->target != wanted) continue;
    const Fd fd(::open(it->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat s {};
    if (fd && ::fstat(*fd, &s) == 0 && S_ISREG(s.st_mode) && ::flock(*fd, LOCK_EX | LOCK_NB) == 0) ::unlink(it->path().c_str());
  }
}

Fd create_temporary_folder(const std::string& target, std::string* path) {
  for (;;) {
    *path = temporary_path(target, random_digits());
    if (::mkdir(path->c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      throw_system("create folder", target, errno);
    }
    Fd fd(::open(path->c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd && errno == ENOENT) continue;
    if (!fd) throw_system("open folder", *path, errno);
    while (::flock(*fd, LOCK_EX) != 0 && errno == EINTR) {
    }
    struct stat s {};
    if (::lstat(path->c_str(), &s) == 0) return fd;  // else remove_unused removed it before the lock
  }
}

void remove_unused(const std::string& temporary) {
  const Fd fd(::open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::error_code ignored;
  if (fd && (::flock(*fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)) fs::remove_all(temporary, ignored);
}

void remove_whole(const std::string& folder, std::error_code& error) {
  const std::string doomed = temporary_path(folder, random_digits());
  fs::rename(folder, doomed, error);
  if (error == std::errc::no_such_file_or_directory) return error.clear();
  if (!error) fs::remove_all(doomed, error);
}

bool is_in_use(const std::string& temporary) {
  Fd fd(::open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return fd && ::flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::vector<std::string> leftovers_of(const std::string& target) {
  const fs::path path(target);
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_of(target), error)) {
    const auto name = parse_temporary(entry.path().filename().string());
    if (name && !name->replaced && name->target == path.filename() && !entry.is_symlink(error) && entry.is_directory(error))
      found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void remove_leftovers(const std::string& folder, const std::function<bool(const std::string&)>& mine,
                      const std::function<std::string(const std::string&)>& foreign) {
  std::error_code error;
  std::vector<std::pair<fs::path, TemporaryName>> found;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const auto name = parse_temporary(entry.path().filename().string());
        name && (!mine || mine(name->target)) && !is_in_use(entry.path().string()))
      found.emplace_back(entry.path(), *name);
  bool named = false;
  for (const auto& [path, name] : found) {
    const fs::path target = path.parent_path() / name.target;
    if (name.replaced && !fs::exists(fs::symlink_status(target, error))) {
      fs::rename(path, target, error);
      named = named || !error;
    }
  }
  if (named) sync_folder(folder);
  for (const auto& [path, name] : found) {
    if (!fs::exists(fs::symlink_status(path, error))) continue;  // it has its old name again
    std::string theirs;
    try {
      if (foreign && fs::is_directory(path)) theirs = foreign(path.string());
    } catch (const std::exception& e) {
      theirs = e.what();
    }
    if (!theirs.empty()) {
      print_stderr(fmt::format(
          "warning: {} is what {} was, before a run that was killed replaced it, and stays: '{}' in it was put there or changed by somebody else; move that away, then the next start removes the rest",
          escaped(path.string()), escaped(name.target), escaped(theirs)));
      continue;
    }
    fs::remove_all(path, error);
    if (error)
      print_stderr(fmt::format("warning: {}, which a killed run has left, could not be removed: {}", escaped(path.string()),
                               error.message()));
  }
}

}  // namespace ravine

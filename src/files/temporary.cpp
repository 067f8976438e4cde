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

#include "files/checksum.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr std::string_view kMark = ".ravine-";
constexpr size_t kRandom = 16, kCheck = 8, kEnd = 4;
constexpr size_t kLongestName = 120;  // of a file's; the whole must stay below 255 bytes

std::string check_digits(const std::string& before) { return checksum_text(checksum_of(std::as_bytes(std::span(before)))).substr(0, kCheck); }

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

// At most so many bytes, and no half character at the end.
std::string shortened(std::string name) {
  if (name.size() <= kLongestName) return name;
  size_t n = kLongestName;
  while (n > 0 && (static_cast<unsigned char>(name[n]) & 0xc0) == 0x80) --n;
  return name.substr(0, n);
}

// Without locks nobody can be asked; those who clean hold the folder.
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
  if ((end != ".tmp" && end != ".old") || before.substr(mark, kMark.size()) != kMark || !is_hex(before.substr(mark + kMark.size())) ||
      digits != check_digits(before + end))
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
    hold(fd);
    return fd;
  }
}

Fd create_temporary_folder(const std::string& target, std::string* path) {
  for (;;) {
    *path = temporary_path(target, random_digits());
    if (::mkdir(path->c_str(), 0777) == 0) break;
    if (errno != EEXIST) throw_system("create folder", target, errno);
  }
  Fd fd(::open(path->c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) throw_system("open folder", *path, errno);
  hold(fd);
  return fd;
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

void remove_leftovers(const std::string& folder) {
  std::error_code error;
  std::vector<std::pair<fs::path, TemporaryName>> found;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const auto name = parse_temporary(entry.path().filename().string()); name && !is_in_use(entry.path().string()))
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
  for (const auto& [path, name] : found) fs::remove_all(path, error);  // those that have their name again are not there any more
}

}  // namespace ravine

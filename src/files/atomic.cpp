#include "files/atomic.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>

#include "files/straight_writer.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {
constexpr size_t kGather = size_t{1} << 20;

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void sync_tree(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      sync_tree(entry.path());
    } else if (entry.is_regular_file()) {
      int64_t size;
      Fd fd = open_to_read(entry.path().string(), &size);
      sync_fd(*fd, entry.path().string());
    }
  }
  sync_folder(folder.string());
}

void rename_path(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_system("rename to", to, errno);
}
}  // namespace

AtomicFile::AtomicFile(std::string path, bool straight) : path_(std::move(path)), temporary_(fmt::format("{}.tmp-{}", path_, ::getpid())) {
  std::error_code ignored;
  if (fs::is_directory(path_, ignored))
    throw UserError("cannot write file", path_, "a folder has this name", "choose another name");
  fd_ = create_file(temporary_);
  if (straight) straight_ = std::make_unique<StraightWriter>(*fd_, path_);
}

AtomicFile::~AtomicFile() {
  if (fd_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  require(static_cast<bool>(fd_), "AtomicFile::write: '{}' is already committed", path_);
  size_ += static_cast<int64_t>(bytes.size());
  if (straight_) return straight_->write(bytes);
  if (buffer_.size() + bytes.size() > kGather) flush();
  if (bytes.size() >= kGather)
    write_all(*fd_, bytes, path_);
  else
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void AtomicFile::flush() {
  write_all(*fd_, buffer_, path_);
  buffer_.clear();
}

void AtomicFile::commit() {
  require(static_cast<bool>(fd_), "AtomicFile::commit: '{}' is already committed", path_);
  if (straight_)
    straight_->finish();
  else
    flush();
  sync_fd(*fd_, path_);
  rename_path(temporary_, path_);
  fd_.close();
  sync_folder(folder_of(path_));
}

void write_file_atomic(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

AtomicFolder::AtomicFolder(std::string path, Begin begin) : path_(without_slash(std::move(path))), temporary_(path_ + ".tmp") {
  std::error_code error;
  if (begin == anew) fs::remove_all(temporary_, error);
  if (error) throw_system("remove", temporary_, error.value());
  fs::create_directory(temporary_, error);
  if (error) throw_system("create folder", temporary_, error.value());
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_ && !keep_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit(bool replace) {
  require(!committed_, "AtomicFolder::commit: '{}' is already committed", path_);
  try {
    sync_tree(temporary_);
  } catch (const fs::filesystem_error& e) {
    throw_system("read folder", temporary_, e.code().value());
  }
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_empty(path_, error)) {
    if (!replace) throw UserError("cannot write folder", path_, "it exists and is not empty", "choose another or remove it");
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
      sync_folder(folder_of(path_));
      committed_ = true;
      fs::remove_all(temporary_, error);  // now the replaced one; if this fails, the next writer removes it
      return;
    }
    if (errno != EINVAL && errno != ENOSYS) throw_system("rename to", path_, errno);
    const std::string old = path_ + ".old";
    fs::remove_all(old, error);
    rename_path(path_, old);
    rename_path(temporary_, path_);
    committed_ = true;
    sync_folder(folder_of(path_));
    fs::remove_all(old, error);
    return;
  }
  rename_path(temporary_, path_);
  committed_ = true;
  sync_folder(folder_of(path_));
}

void remove_leftovers(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> dead;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory(error) && !entry.is_symlink(error)) {
      if (name.ends_with(".tmp")) dead.push_back(entry.path());
      continue;
    }
    size_t at = name.rfind(".tmp-");
    if (at == std::string::npos) continue;
    pid_t pid = 0;
    const char* end = name.data() + name.size();
    auto [stop, code] = std::from_chars(name.data() + at + 5, end, pid);
    if (code == std::errc{} && stop == end && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) dead.push_back(entry.path());
  }
  for (const auto& path : dead) fs::remove_all(path, error);
}

}  // namespace ravine

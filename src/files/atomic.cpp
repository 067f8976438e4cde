#include "files/atomic.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "files/straight_writer.h"
#include "files/temporary.h"

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

void refuse_existing_file(const std::string& path, bool overwrite) {
  std::error_code ignored;
  if (overwrite || !fs::exists(fs::symlink_status(path, ignored))) return;
  if (const auto there = fs::status(path, ignored); fs::exists(there) && !fs::is_regular_file(there))
    return;  // AtomicFile reports what it is
  throw UserError("output exists", path, "nothing is overwritten unasked", "choose another name, or add --overwrite");
}

MayReplace may_overwrite(bool overwrite) {
  return [overwrite](const std::string& path) { refuse_existing_file(path, overwrite); };
}

AtomicFile::AtomicFile(std::string path, bool straight) : path_(std::move(path)) {
  std::error_code ignored;
  if (fs::is_directory(path_, ignored))
    throw UserError("cannot write file", path_, "a folder has this name", "choose another name");
  // A rename would replace the device by a file.
  if (fs::exists(path_, ignored) && !fs::is_regular_file(path_, ignored))
    throw UserError("cannot write file", path_, "it is a device, a pipe or a socket, which a file cannot replace",
                    "name a file");
  remove_left_files(path_);
  fd_ = create_nameless_file(folder_of(path_));
  if (!fd_) fd_ = create_temporary_file(path_, &temporary_);
  if (straight) straight_ = std::make_unique<StraightWriter>(*fd_, path_);
}

AtomicFile::~AtomicFile() {
  if (fd_ && !temporary_.empty()) ::unlink(temporary_.c_str());
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

void AtomicFile::commit(const MayReplace& check) {
  require(static_cast<bool>(fd_), "AtomicFile::commit: '{}' is already committed", path_);
  if (straight_)
    straight_->finish();
  else
    flush();
  if (struct stat s{}; ::lstat(path_.c_str(), &s) == 0 && S_ISREG(s.st_mode))
    static_cast<void>(!::fchmod(*fd_, s.st_mode & 0777));  // not supported by every file system
  sync_fd(*fd_, path_);
  if (temporary_.empty()) name_file(*fd_, path_, &temporary_);
  if (check) check(path_);
  if (!check || ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
    if (check && errno == EEXIST) check(path_);  // it may be replaced, or appeared just now
    rename_path(temporary_, path_);
  }
  fd_.close();
  sync_folder(folder_of(path_));
}

void write_file_atomic(const std::string& path, std::string_view text, const MayReplace& check) {
  AtomicFile file(path);
  file.write(text);
  file.commit(check);
}

AtomicFolder::AtomicFolder(std::string path) : path_(without_slash(std::move(path))) {
  held_ = create_temporary_folder(path_, &temporary_);
}

AtomicFolder::AtomicFolder(std::string path, std::string leftover)
    : path_(without_slash(std::move(path))), temporary_(std::move(leftover)) {
  held_ = Fd(::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!held_) throw_system("open folder", temporary_, errno);
  static_cast<void>(::flock(*held_, LOCK_EX | LOCK_NB));
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_ && !keep_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit(const MayReplace& check) {
  require(!committed_, "AtomicFolder::commit: '{}' is already committed", path_);
  try {
    sync_tree(temporary_);
  } catch (const fs::filesystem_error& e) {
    throw_system("read folder", temporary_, e.code().value());
  }
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_empty(path_, error)) return replace(check);
  rename_path(temporary_, path_);
  committed_ = true;
  sync_folder(folder_of(path_));
}

void AtomicFolder::replace(const MayReplace& check) {
  if (!check) throw UserError("cannot write folder", path_, "it exists and is not empty", "choose another or remove it");
  check(path_);
  std::error_code ignored;
  auto exchange = [&] { return ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0; };
  std::string old = temporary_;  // holds the replaced folder after the exchange
  if (exchange()) {
    try {
      check(old);  // again: from here on nobody can add files to it under its old name
    } catch (...) {
      if (!exchange()) keep_ = true;  // our temporary name now belongs to the old folder
      throw;
    }
  } else {
    if (errno != EINVAL && errno != ENOSYS) throw_system("rename to", path_, errno);
    // Exchange in two renames. If the process is killed between them, remove_leftovers restores the name.
    old = temporary_path(path_, random_digits(), true);
    rename_path(path_, old);
    try {
      check(old);
    } catch (...) {
      rename_path(old, path_);
      throw;
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      const int code = errno;
      rename_path(old, path_);
      throw_system("rename to", path_, code);
    }
  }
  committed_ = true;
  sync_folder(folder_of(path_));
  fs::remove_all(old, ignored);  // if this fails, remove_leftovers removes it
}

}  // namespace ravine

// Files and folders that appear whole or not at all: built beside the target, synced, renamed, and the folder synced.
// Errors: DiskFull (files/fd.h), UserError for a path that cannot be used, Error otherwise. Not for use by two threads at once.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/fd.h"

namespace ravine {

class StraightWriter;

class AtomicFile {
 public:
  // Creates `path`.tmp-<pid>. The folder must exist. The target is not touched before commit(). straight: past the page cache, by a
  // thread (files/straight_writer.h), for large files.
  explicit AtomicFile(std::string path, bool straight = false);
  ~AtomicFile();  // removes what was not committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);  // appends; small pieces are gathered
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void commit();  // blocks until the file is on disk under its name; once
  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // bytes written so far

 private:
  void flush();
  std::string path_, temporary_;
  Fd fd_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<StraightWriter> straight_;  // after fd_: it ends before that is closed
  int64_t size_ = 0;
};

// The whole of `text` as the new content of `path`.
void write_file_atomic(const std::string& path, std::string_view text);

class AtomicFolder {
 public:
  // Creates `path`.tmp, first removing one that a dead run left, or taking it up as it is. The parent must exist, and no other
  // writer may use `path`.
  enum Begin : uint8_t { anew, take_up };
  explicit AtomicFolder(std::string path, Begin begin = anew);
  ~AtomicFolder();  // removes what was not committed, unless keep() was called
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::string& folder() const { return temporary_; }  // build in here
  const std::string& path() const { return path_; }

  // Syncs every file and folder inside, then renames to `path`; blocks until that is on disk; once. A non-empty folder of that
  // name is a UserError, or with `replace` is exchanged for the new one and removed.
  void commit(bool replace = false);
  void keep() { keep_ = true; }

 private:
  std::string path_, temporary_;
  bool committed_ = false, keep_ = false;
};

// Removes folders `name`.tmp and files *.tmp-<pid> of processes that are gone, directly inside `folder`: what a killed run
// left.
void remove_leftovers(const std::string& folder);

}  // namespace ravine

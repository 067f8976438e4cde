// Files and folders that appear whole or not at all: built beside the target, synced, renamed, and the folder synced.
// Errors: DiskFull (files/fd.h), UserError for a path that cannot be used, Error otherwise. Not for use by two threads at once.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/fd.h"

namespace ravine {

class StraightWriter;

// Throws if what is at `path` must not be lost.
using MayReplace = std::function<void(const std::string& path)>;

// A single file that a flag names as output (`trace --out`, `plot --output`, ..) is replaced only with --overwrite: a UserError if
// a file or a link is at `path`. Asked before the work begins, and by may_overwrite when the file gets its name, which may be much later.
void refuse_existing_file(const std::string& path, bool overwrite);
MayReplace may_overwrite(bool overwrite);

class AtomicFile {
 public:
  // Creates a file without a name, or, where the file system has none, a temporary beside `path` (files/temporary.h): a kill
  // leaves nothing, or what the next AtomicFile of this path removes. The folder must exist. The target is not touched before
  // commit(). straight: past the page cache, by a thread (files/straight_writer.h), for large files.
  explicit AtomicFile(std::string path, bool straight = false);
  ~AtomicFile();  // removes what was not committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);  // appends; small pieces are gathered
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Blocks until the file is on disk under its name, with the mode of the file that it replaces; once. `check` is asked when
  // nothing is left to do but the name, and again if a file came in between.
  void commit(const MayReplace& check = {});
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
void write_file_atomic(const std::string& path, std::string_view text, const MayReplace& check = {});

class AtomicFolder {
 public:
  // Creates a temporary folder beside `path` (files/temporary.h). The parent must exist.
  explicit AtomicFolder(std::string path);
  AtomicFolder(std::string path, std::string leftover);  // takes up one that a killed writer left
  ~AtomicFolder();                                       // removes what was not committed, unless keep() was called
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::string& folder() const { return temporary_; }  // build in here
  const std::string& path() const { return path_; }

  // Syncs every file and folder inside, then renames to `path`; blocks until that is on disk; once. A folder of that name that
  // is not empty is a UserError, or, if `check` lets it go, exchanged for the new one and removed: at every moment one of the
  // two is there, under its name or where remove_leftovers gives it its name again.
  void commit(const MayReplace& check = {});
  void keep() { keep_ = true; }

 private:
  void replace(const MayReplace& check);
  std::string path_, temporary_;
  Fd held_;
  bool committed_ = false, keep_ = false;
};

}  // namespace ravine

// Files and folders that appear complete or not at all. Both are built next to the target, synced and renamed; then the
// folder is synced. Errors: DiskFull (files/fd.h), UserError for a path that cannot be used, else Error. Not
// thread-safe.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/fd.h"

namespace ravine {

class StraightWriter;

// A function that is called before an existing file or folder is replaced. It throws if the file must be kept.
using MayReplace = std::function<void(const std::string& path)>;

// Throws a UserError if `path` is a file or a link and `overwrite` (flag --overwrite) is false. Commands with one
// output file (`trace --out`, `plot --output`, ..) call it before the work begins.
void refuse_existing_file(const std::string& path, bool overwrite);
// Returns the check of refuse_existing_file for AtomicFile::commit, which runs it when the file gets its name.
MayReplace may_overwrite(bool overwrite);

// A file that gets its name at commit().
class AtomicFile {
 public:
  // Creates a file without a name. If the file system has no nameless files, a temporary file next to `path`
  // (files/temporary.h): after a kill, the next AtomicFile of this path removes it. The folder must exist. The target
  // is unchanged until commit(). straight: a thread writes past the page cache (files/straight_writer.h); for large
  // files.
  explicit AtomicFile(std::string path, bool straight = false);
  ~AtomicFile();  // removes the file if it was not committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);  // appends; small pieces are collected in a buffer
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Names the file, with the permissions of the file that it replaces, and blocks until it is on the disk. Called once.
  // `check` runs just before the rename, and again if a file appeared in between.
  void commit(const MayReplace& check = {});
  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // bytes written so far

 private:
  void flush();
  std::string path_, temporary_;
  Fd fd_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<StraightWriter> straight_;  // destroyed before fd_, which it uses
  int64_t size_ = 0;
};

// Writes a file with the content `text`, or replaces it (AtomicFile).
void write_file_atomic(const std::string& path, std::string_view text, const MayReplace& check = {});

// A folder that gets its name at commit(), with all its files.
class AtomicFolder {
 public:
  // Creates a temporary folder next to `path` (files/temporary.h). The parent folder must exist.
  explicit AtomicFolder(std::string path);
  AtomicFolder(std::string path, std::string leftover);  // continues with a temporary folder of a killed process
  ~AtomicFolder();                                       // removes the folder, unless committed or keep() was called
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::string& folder() const { return temporary_; }  // the temporary folder: create the files here
  const std::string& path() const { return path_; }

  // Syncs all files in the temporary folder, renames it to `path`, and blocks until it is on the disk. Called once. If
  // `path` is a folder that is not empty: UserError without `check`; if `check` returns, the two are exchanged and the
  // old one is removed. At every moment one of them exists, as `path` or as a leftover that remove_leftovers renames to
  // `path`.
  void commit(const MayReplace& check = {});
  // Lets the temporary folder stay if the object is destroyed without commit().
  void keep() { keep_ = true; }

 private:
  void replace(const MayReplace& check);
  std::string path_, temporary_;
  Fd held_;
  bool committed_ = false, keep_ = false;
};

}  // namespace ravine

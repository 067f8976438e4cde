// The folder that a conversion writes: it appears whole or not at all, and one that was killed is taken up where it was.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "files/atomic.h"
#include "files/folder_lock.h"

namespace ravine {

// Files are built in a temporary folder beside PATH (files/temporary.h), each of them atomically. Beside them lies what the
// conversion is: `plan`, a text that must differ whenever a file would get other bytes: by the program's version, the options,
// and what names, sizes and times say of the files that are read (describe_source). A conversion of the same plan finds the
// files that are complete; any other plan starts anew, and what a killed one left goes. An error removes the folder, a kill
// leaves it. Two conversions into one folder at a time: a UserError.
class TargetFolder {
 public:
  // `replaces` (empty: never): whether a folder that is there and not empty may go for the new one, asked at commit().
  TargetFolder(const std::string& path, const std::string& plan, MayReplace replaces = {});
  ~TargetFolder();
  TargetFolder(const TargetFolder&) = delete;
  TargetFolder& operator=(const TargetFolder&) = delete;

  // Where the file of this name is to be built.
  std::string path(const std::string& file) const { return folder_.folder() + "/" + file; }
  const std::string& folder() const { return folder_.folder(); }
  // Whether an earlier conversion of the same plan has completed it.
  bool has(const std::string& file) const;
  bool taken_up() const { return taken_up_; }
  void keep() { folder_.keep(); }  // an error leaves it too, as a kill does
  void commit();                   // under its name; once

 private:
  AtomicFolder begin(const std::string& path);
  MayReplace replaces_;
  bool taken_up_ = false;
  std::string text_;                  // of the plan
  std::unique_ptr<FolderLock> lock_;  // before folder_: of one that is taken up it is held from the first look on
  AtomicFolder folder_;
};

// Names, sizes and times of the files below `path`: when these are the same, so is the source.
std::string describe_source(const std::string& path);

}  // namespace ravine

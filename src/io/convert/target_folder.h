// The output folder of a conversion: it appears complete or not at all, and an interrupted conversion can continue.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "files/atomic.h"
#include "files/folder_lock.h"

namespace ravine {

// An output folder whose files are built in a temporary folder next to PATH (files/temporary.h), each atomically.
// `plan` is a text stored with them. The plan must change whenever a file would get other bytes. So the plan has the
// program's version, the options, and names, sizes and times of the source files (describe_source). A conversion with
// the same plan reuses the completed files; with another plan it starts anew and removes the old ones. An error removes
// the folder, a kill leaves it. Two concurrent conversions into one folder are a UserError.
class TargetFolder {
 public:
  // Creates the temporary folder, or continues with the folder of an interrupted conversion of the same plan.
  // `replaces` is called at commit() before an existing folder that is not empty is replaced, and throws if it must be
  // kept; null: such a folder is a UserError.
  TargetFolder(const std::string& path, const std::string& plan, MayReplace replaces = {});
  ~TargetFolder();
  TargetFolder(const TargetFolder&) = delete;
  TargetFolder& operator=(const TargetFolder&) = delete;

  // Returns the path in the temporary folder at which to build `file`.
  std::string path(const std::string& file) const { return folder_.folder() + "/" + file; }
  const std::string& folder() const { return folder_.folder(); }
  // True if `file` is complete: an earlier conversion with the same plan has built it.
  bool has(const std::string& file) const;
  bool taken_up() const { return taken_up_; }
  void keep() { folder_.keep(); }  // the temporary folder then stays after an error too, as after a kill
  void commit();                   // gives the folder its name; call once

 private:
  AtomicFolder begin(const std::string& path);
  MayReplace replaces_;
  bool taken_up_ = false;
  std::string text_;  // text of the plan
  // Declared before folder_: the lock of a reused folder is held from the first look on.
  std::unique_ptr<FolderLock> lock_;
  AtomicFolder folder_;
};

// Returns names, sizes and times of the files below `path`; equal texts mean equal sources.
std::string describe_source(const std::string& path);

}  // namespace ravine

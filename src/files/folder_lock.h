// The lock of an output folder: a folder belongs to one run at a time.
#pragma once
#include <optional>
#include <string>

#include "files/fd.h"

namespace ravine {

// Holds an advisory lock (flock) on `folder`/.lock, whose content is "ravine lock: process <pid> <host>". The kernel
// releases the lock when the process ends, so the file of a dead process is taken over. On file systems without flock,
// the pid decides. Does not wait: if another run uses the folder, a UserError names its pid and host. A link named
// .lock, or a file of this name that is no lock, is a UserError and stays unchanged.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();  // removes the file, unless its name belongs to another file now
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool in_place() const;  // true if the locked file still has its name: false if the folder was removed or renamed

 private:
  std::string path_;
  Fd fd_;
};

// Returns the holder of the lock on `folder`, as "process 123 on node7"; nothing if it is free. The lock file is not
// changed.
std::optional<std::string> folder_holder(const std::string& folder);

}  // namespace ravine

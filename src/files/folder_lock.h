// An output folder belongs to one run at a time.
#pragma once
#include <optional>
#include <string>

#include "files/fd.h"

namespace ravine {

// Holds an advisory lock (flock) on `folder`/.lock, which contains "ravine lock: process <pid> <host>". The kernel drops the
// lock when its process ends however it ends, so a file left by a dead process is simply taken over. On file systems without
// flock the pid decides. A link, or a file of that name that is no lock, is a UserError and stays as it is. Never blocks: a
// folder in use by another run is a UserError that names its pid and host.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();  // removes the file, unless another has its name by now
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool in_place()
      const;  // whether the file that is locked still has its name: a folder that was removed or renamed has taken it along

 private:
  std::string path_;
  Fd fd_;
};

// Who holds the lock on `folder` right now, as "process 123 on node7"; nothing if nobody does. The lock is only looked at.
std::optional<std::string> folder_holder(const std::string& folder);

}  // namespace ravine

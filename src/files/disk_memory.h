// Memory of a run that is mapped from a file (offload to disk). Its pages are read when they are touched or fetched.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"
#include "files/fd.h"

namespace ravine {

// A file on disk that holds the memory of optimizer states or weights (offload.path). take() maps a Storage to the
// file: it keeps its address and its bytes. The Storage must be destroyed before this object. fetch and drop are
// thread-safe, and do nothing to memory that was not taken.
class DiskMemory {
 public:
  // Plans without a file: take() only adds up the bytes of memory on the meta device.
  DiskMemory() = default;
  // Creates a file without a name in `folder`, with all its `bytes` reserved. The file ends with the process. DiskFull
  // if the disk has too little room. A missing folder is created.
  DiskMemory(const std::string& folder, int64_t bytes);
  ~DiskMemory();
  DiskMemory(const DiskMemory&) = delete;
  DiskMemory& operator=(const DiskMemory&) = delete;

  void take(const Storage& memory);         // maps the memory to the file; it must be fresh and all zeros
  int64_t bytes() const { return taken_; }  // bytes taken, in whole pages
  void fetch(const Storage& memory) const;  // starts to read the pages: the memory is used soon
  // Releases the pages of `memory`, which is not used for a while. Changed pages begin to go to the disk. The pages
  // stay in the page cache as long as the system has memory. An earlier failed write to the disk is an Error.
  void drop(const Storage& memory) const;

  // Returns the most bytes that are in memory at once if pieces of these sizes, in bytes, are used in order. At a
  // piece, the previous piece and the next one are in memory too.
  static int64_t most_at_once(const std::vector<int64_t>& pieces);

 private:
  std::string folder_;
  Fd file_;
  int64_t taken_ = 0, size_ = 0;
  std::map<const std::byte*, int64_t> offsets_;  // offset in the file, by address
  std::vector<void*> noted_;
};

}  // namespace ravine

// Memory of a run that lies in a file: its pages come as they are touched, or asked for, and go as they are given up.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"
#include "files/fd.h"

namespace ravine {

// Memory that was taken stays where it is, with the same bytes at the same addresses, whoever touches it and when. It must go
// before this does. fetch and drop may be called by many threads, and do nothing to memory that was not taken.
class DiskMemory {
 public:
  // A plan: counts what is taken, of memory on meta.
  DiskMemory() = default;
  // A file in `folder` that has all its bytes from the start, and no name: it goes with the process, however that ends. Too little
  // room is a DiskFull at once. A folder that is not there is made.
  DiskMemory(const std::string& folder, int64_t bytes);
  ~DiskMemory();
  DiskMemory(const DiskMemory&) = delete;
  DiskMemory& operator=(const DiskMemory&) = delete;

  void take(const Storage& memory);         // of zeros, and fresh
  int64_t bytes() const { return taken_; }  // in whole pages
  void fetch(const Storage& memory) const;  // it is about to be used: read ahead
  // It is not used for a while: its pages are no longer those of the process. What was changed begins to go to the disk; from
  // there on they are the system's, which keeps them as long as it has memory to spare. A disk that failed to write before is an
  // Error.
  void drop(const Storage& memory) const;

  // Bytes in memory of pieces that are used one after the other: of one, the one before and the one behind, where these are most.
  static int64_t most_at_once(const std::vector<int64_t>& pieces);

 private:
  std::string folder_;
  Fd file_;
  int64_t taken_ = 0, size_ = 0;
  std::map<const std::byte*, int64_t> places_;  // in the file
  std::vector<void*> noted_;
};

}  // namespace ravine

// Finds the recorded call that made the input of another call by its checksum: the content of a tensor does not change
// in between.
#pragma once
#include <unordered_map>
#include <vector>

#include "probe/dump_log.h"

namespace ravine {

// The outputs of one rank's records, by checksum.
class Producers {
 public:
  // `records`: in the order of the run; kept by reference.
  explicit Producers(const std::vector<DumpRecord>& records);
  // Returns the last output before `reader` (one of the records) with the same elements in the same order; null: there
  // is none. A call is not the producer of its own input.
  const DumpRecord* of(const DumpRecord& reader) const;

 private:
  const std::vector<DumpRecord>& records_;
  std::unordered_map<uint64_t, std::vector<size_t>> written_;  // indices of outputs by checksum, ascending
};

}  // namespace ravine

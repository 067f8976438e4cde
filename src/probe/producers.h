// Finds the recorded call that made the input of another call by its checksum: the content of a tensor does not change
// in between.
#pragma once
#include <unordered_map>
#include <vector>

#include "probe/dump_log.h"

namespace ravine {

// Finds the call that made an input, among the records of one rank, by the checksum of the tensor.
class Producers {
 public:
  // records: in the order of the run; they must outlive this object.
  explicit Producers(const std::vector<DumpRecord>& records);
  // Returns the record of the output from which the input `reader` (one of the records) comes. It comes from the last
  // earlier output of another call with the same elements in the same order. Null if there is none.
  const DumpRecord* of(const DumpRecord& reader) const;

 private:
  const std::vector<DumpRecord>& records_;
  std::unordered_map<uint64_t, std::vector<size_t>> written_;  // indices of outputs by checksum, ascending
};

}  // namespace ravine

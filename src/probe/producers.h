// Which recorded call made what another call reads: found by content, since a tensor keeps its checksum on its way.
#pragma once
#include <unordered_map>
#include <vector>

#include "probe/dump_log.h"

namespace ravine {

class Producers {
 public:
  // Of one rank's records, in the order of the run; kept by reference.
  explicit Producers(const std::vector<DumpRecord>& records);
  // The last record before `reader` (one of the records) that was written with its elements in their order; null: none. What a
  // call writes in place it does not make for itself.
  const DumpRecord* of(const DumpRecord& reader) const;

 private:
  const std::vector<DumpRecord>& records_;
  std::unordered_map<uint64_t, std::vector<size_t>> written_;  // places of outputs by checksum, ascending
};

}  // namespace ravine

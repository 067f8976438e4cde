// What a run asks of its disk.
#pragma once
#include <cstdint>

namespace ravine {

// Bytes that a run still writes, beyond what is on its disk: at least, if it shall save anything at all, and at most at a time.
// `there` checkpoints lie in its folder, `saves` more will be made, `keep` as checkpoint.keep; one of `checkpoint` bytes each,
// and the model at the end.
struct DiskNeeds {
  int64_t least = 0, most = 0;
};
DiskNeeds disk_needs(int64_t checkpoint, int64_t model, int64_t saves, int64_t keep, int64_t there);

}  // namespace ravine

// The disk space that a run needs, and the check for it.
#pragma once
#include <cstdint>

#include "base/log.h"
#include "comm/ranks.h"
#include "config/config.h"

namespace ravine {

class Model;
struct Types;

// The result of disk_needs: the bytes that a run will add to its disk. least: to save anything at all. most: the peak.
//
// Arguments of disk_needs: `checkpoint`: bytes of a checkpoint. `model`: bytes of the model at the end. `saves`:
// checkpoints still to be made. `keep`: checkpoint.keep. `there`: checkpoints in the folder now. `extra`: extra bytes
// while a checkpoint is written, freed afterwards.
struct DiskNeeds {
  int64_t least = 0, most = 0;
};
DiskNeeds disk_needs(int64_t checkpoint, int64_t model, int64_t saves, int64_t keep, int64_t there, int64_t extra = 0);

// The bytes of the files that a run writes, over all ranks: one checkpoint, and the model at the end. The result of
// saved_bytes.
struct SavedBytes {
  int64_t checkpoint = 0, model = 0;
};
// Computes the bytes of one checkpoint and of the exported model of a run, without allocating memory.
// checkpoint.model_dtype must be set. `keeps_frozen`: true if checkpoints contain frozen weights.
SavedBytes saved_bytes(const Config& config, Model& model, const Types& types, bool keeps_frozen, int data_ranks);

// Throws an Error on all ranks if the disk has less free space than a run that starts at `step` needs to save anything
// (DiskNeeds::least). All ranks call it together.
void refuse_without_room(const Config& config, const Ranks& ranks, const SavedBytes& bytes, int64_t step);
// Warns if the disk has less free space than a run that starts at `step` needs at its peak (DiskNeeds::most). Called by
// the first rank.
void warn_of_little_room(const Config& config, Log& log, const SavedBytes& bytes, int64_t step);

}  // namespace ravine

// What a run asks of its disk, and whether the disk has it.
#pragma once
#include <cstdint>

#include "base/log.h"
#include "comm/ranks.h"
#include "config/config.h"

namespace ravine {

class Model;
struct Types;

// Bytes that a run still writes, beyond what is on its disk: at least, if it shall save anything at all, and at most at a time.
// `there` checkpoints lie in its folder, `saves` more will be made, `keep` as checkpoint.keep; one of `checkpoint` bytes each,
// and the model at the end. `beside`: bytes that lie beside a checkpoint while it is written, and go then.
struct DiskNeeds {
  int64_t least = 0, most = 0;
};
DiskNeeds disk_needs(int64_t checkpoint, int64_t model, int64_t saves, int64_t keep, int64_t there, int64_t beside = 0);

// Bytes of what a run saves, over all ranks: one checkpoint, and the model at the end. checkpoint.model_dtype says a type.
struct SavedBytes {
  int64_t checkpoint = 0, model = 0;
};
// `keeps_frozen`: whether checkpoints hold frozen weights. Takes no memory.
SavedBytes saved_bytes(const Config& config, Model& model, const Types& types, bool keeps_frozen, int data_ranks);

// Of a run that begins at this step: an Error on all ranks where the disk has not even room for what it must write. All ranks
// call it.
void refuse_without_room(const Config& config, const Ranks& ranks, const SavedBytes& bytes, int64_t step);
// Warns where it has too little for all that the run may write. For the rank that speaks.
void warn_of_little_room(const Config& config, Log& log, const SavedBytes& bytes, int64_t step);

}  // namespace ravine

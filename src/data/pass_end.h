// data.pass_end: epochs of whole steps, as in Transformers' Trainer.
//
// An epoch of N rows takes ceil(M / batch) steps.
// short: M = N. With several data ranks, M is rounded up to whole micro batches of all ranks, and filled with the first
// rows of the epoch, as in accelerate.
// drop: M is N rounded down in the same way.
// The remaining rows of the last step are padding without labels: they change neither loss nor gradient.
#pragma once
#include <memory>

#include "data/dataset.h"

namespace ravine {

// Returns `data`, changed so that each epoch has whole steps, by the rule `end` (data.pass_end). go-on returns `data`
// unchanged: a step may continue into the next epoch. batch: rows of a step. micro_batch: rows of a micro batch of one
// rank. rows_at_once: rows of a micro batch summed over the data ranks, a multiple of `micro_batch`.
std::unique_ptr<Dataset> end_passes(std::unique_ptr<Dataset> data, PassEnd end, int64_t rows_at_once, int64_t micro_batch,
                                    int64_t batch);

}  // namespace ravine

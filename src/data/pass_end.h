// data.pass_end: passes over the data that take whole steps, as Transformers' Trainer has them.
//
// A pass of N rows takes ceil(M / batch) steps. short: M is N, with several data ranks rounded up to whole micro batches of all of
// them, by the first rows of the pass, as accelerate fills them. drop: M is N rounded down so. The rest of the last step are rows
// that are padding, without a label: they change neither loss nor gradient.
#pragma once
#include <memory>

#include "data/dataset.h"

namespace ravine {

// `batch`: rows of a step. `rows_at_once`: of a micro batch of every data rank, a multiple of `micro_batch`.
std::unique_ptr<Dataset> end_passes(std::unique_ptr<Dataset> data, PassEnd end, int64_t rows_at_once, int64_t micro_batch,
                                    int64_t batch);

}  // namespace ravine

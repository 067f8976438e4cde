// Opens a run and checks it before its first step.
#pragma once
#include "runs/opened_run.h"

namespace ravine {

// Opens model, tokenizer and data of `run`, plans its memory, and returns `run`. Mistakes in these and in the options
// are a UserError. Nothing is written yet, except the token folder that the first of several ranks makes for all. The
// bytes of checkpoints are not checked here. All ranks call it together.
const OpenedRun& open_run(OpenedRun& run, Backend backend);

}  // namespace ravine

// Opens what a run is made of, and refuses it where something is wrong.
#pragma once
#include "runs/opened_run.h"

namespace ravine {

// Opens model, tokenizer and data and plans memory; returns `run`. Mistakes in them and in the options are found here, before
// anything is written but, on several ranks, the folder with the tokens that the first rank makes for all. Mistakes in the bytes
// of a checkpoint are not found here. All ranks call it at the same time.
const OpenedRun& open_run(OpenedRun& run, Backend backend);

}  // namespace ravine

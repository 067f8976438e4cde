// The model folder that a run leaves at its end, train.output/model, and the file `exported` beside it, which says of what
// checkpoint it was made, and how.
#pragma once
#include <string>

#include "runs/opened_run.h"
#include "runs/resume.h"
#include "runs/saves.h"

namespace ravine {

// Of a run that goes on from the checkpoint `from` of step `done`: whether all steps are done and train.output/model holds what
// came of them, byte for byte; says so, or what it lacks. A UserError where a model of more steps than this run would come to
// would be replaced. All ranks call it.
bool is_complete(const OpenedRun& run, int64_t done, const std::string& from);

// Writes the model, in place of one that is there, says where it is and what comes next, and notes it if there is a checkpoint
// of its step. `saves`: for what is kept should there be no room. All ranks call it; the first holds the folder.
void export_model(const OpenedRun& run, const Progress& progress, const Saves& saves);

}  // namespace ravine

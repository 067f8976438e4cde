// The model folder at the end of a run (train.output/model), and the file `exported` next to it, which names the
// checkpoint of the model and the options of its files.
#pragma once
#include <string>

#include "runs/opened_run.h"
#include "runs/resume.h"
#include "runs/saves.h"

namespace ravine {

// True if the run has nothing left to do: all steps are done and train.output/model holds the model of step `done`,
// byte for byte. Logs the result, or the reason for a new export. `from`: the checkpoint that the run resumes from. A
// UserError if the export would replace a model of more steps than this run has. All ranks call it together.
bool is_complete(const OpenedRun& run, int64_t done, const std::string& from);

// Writes the trained model to train.output/model (or adapter), replacing an existing export, and logs its path and the
// next command. Records the export in the file `exported` if there is a checkpoint of its step. `saves`: names the kept
// checkpoint in the error of a full disk. All ranks call it together; the first rank writes the folder.
void export_model(const OpenedRun& run, const Progress& progress, const Saves& saves);

}  // namespace ravine

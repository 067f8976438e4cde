// Checkpoint folders of single steps in train.output, in the format of another program: checkpoint-12, iter_0000012.
//
// Each folder has a mark of its run (files/folder_mark.h) with the folder's name and the checksums of its files; large
// files have their sizes alone. A folder with an added or changed file, a copy with another name and a link are never
// removed or replaced.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "io/convert/target_folder.h"

namespace ravine {

// The naming scheme of a run's checkpoint folders, one per step: "iter_0000012", "checkpoint-12".
struct StepNames {
  std::string before;  // prefix: "iter_"
  int digits = 1;      // minimum number of digits, filled with leading zeros
  std::string name(int64_t step) const;
  std::optional<int64_t> step(const std::string& name) const;      // 12 for "iter_0000012"; empty for another name
  std::vector<int64_t> steps_in(const std::string& output) const;  // steps with a folder in `output`, ascending
};

// True if this run has written the checkpoint folder of a step: it is not a link, and its mark has the id `run` and the
// folder's name.
bool is_of_run(const std::string& folder, const std::string& run);
// True if the run may remove or replace the checkpoint folder of a step: is_of_run(folder, run), and no file in it was
// added or changed since.
bool may_go(const std::string& folder, const std::string& run);
// Returns the path of the first existing folder in train.output in which the run would write a checkpoint, but which it
// may not replace; "" if there is none. run: the id of the run. from: the folder to resume from; "" for a new run.
std::string foreign_ahead(const Config& config, const StepNames& names, const std::string& run, const std::string& from);
// Removes incomplete folders of killed runs in `output`. A folder that was being replaced gets its name again.
void clean_step_leftovers(const std::string& output, const StepNames& names);
// Returns a callback for TargetFolder that decides if an existing checkpoint folder may be replaced. It throws a
// UserError if the run with the id `run` may not replace it.
MayReplace replaces_own(const std::string& run);
// Writes the mark of the run with the id `run` into a checkpoint folder, when all other files are complete. name: the
// final name of the folder.
void mark_as_made(const std::string& folder, const std::string& run, const std::string& name);
// Removes the run's checkpoint folders up to `step`, except the newest `keep` (checkpoint.keep; 0 keeps all). Folders
// of later steps stay: they are of a run that was set back. The folder of step `best` (0: none) is kept as one of the
// `keep`, or in addition to the newest if `keep` is 1.
void keep_newest(const std::string& output, const StepNames& names, const std::string& run, int64_t step, int64_t keep,
                 int64_t best = 0);

}  // namespace ravine

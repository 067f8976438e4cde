// Folders of steps in train.output, for another program: checkpoint-12, iter_0000012. Each has a mark of the run with its name
// and its files as they were made, of large ones the sizes (files/folder_mark.h): what somebody put there or changed, a copy under
// another name and a link are never removed or replaced.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "io/convert/target_folder.h"

namespace ravine {

struct StepNames {
  std::string before;  // "iter_"
  int digits = 1;      // at least so many, with zeros before the number
  std::string name(int64_t step) const;
  std::optional<int64_t> step(const std::string& name) const;      // of "iter_0000012"; nothing of other names
  std::vector<int64_t> steps_in(const std::string& output) const;  // ascending
};

bool is_of_run(const std::string& folder, const std::string& run);
// Of the run, and nothing lies in it but the run's own files.
bool may_go(const std::string& folder, const std::string& run);
// The first folder in train.output of a step that a run may write, which goes on from the folder `from` (or begins), and that may
// not go; "": none.
std::string foreign_ahead(const Config& config, const StepNames& names, const std::string& run, const std::string& from);
// Removes what killed runs were writing in `output` under such names, and gives a folder its name again that they were replacing.
void clean_step_leftovers(const std::string& output, const StepNames& names);
// For TargetFolder: a folder that may not go is a UserError.
MayReplace replaces_own(const std::string& run);
// `name`: of the folder, once it is complete.
void mark_as_made(const std::string& folder, const std::string& run, const std::string& name);
// checkpoint.keep: of the run's folders up to this step the newest stay; 0: all. Later ones are of a run that was set back. The
// folder of step `best` (0: none) stays as one of them, or beside the newest where `keep` is 1.
void keep_newest(const std::string& output, const StepNames& names, const std::string& run, int64_t step, int64_t keep,
                 int64_t best = 0);

}  // namespace ravine

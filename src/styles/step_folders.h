// Folders of steps in train.output, for another program: checkpoint-12, iter_0000012. Each has a mark of the run with its files as
// they were made (files/folder_mark.h): what somebody put there or changed is never removed or replaced.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
// For TargetFolder: a folder that may not go is a UserError.
MayReplace replaces_own(const std::string& run);
void mark_as_made(const std::string& folder, const std::string& run);
// checkpoint.keep: of the run's folders up to this step the newest stay; 0: all. Later ones are of a run that was set back.
void keep_newest(const std::string& output, const StepNames& names, const std::string& run, int64_t step, int64_t keep);

}  // namespace ravine

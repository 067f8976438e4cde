// The folder of results of an evaluation, and what it depends on: OUTPUT/eval.json {"ravine": "eval", "settings": {..}}.
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "files/folder_lock.h"

namespace ravine {

// Makes the folder, or goes on in one with the same settings. Others are a UserError that names the first that differs, as is a
// folder that holds something else; overwrite: an evaluation with other settings is removed. Held until the lock is gone.
std::unique_ptr<FolderLock> open_result_folder(const std::string& folder, const Json& settings, bool overwrite);

// Names and contents of the files of a model folder, or of one file; of large files size and time in place of what they hold.
// Another text where one of them was changed.
std::string files_of_model(const std::string& path);

}  // namespace ravine

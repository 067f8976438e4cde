// The folder of an evaluation's results, and the settings of the results: OUTPUT/eval.json {"ravine": "eval",
// "settings": {..}}.
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "files/folder_lock.h"

namespace ravine {

// Creates the folder of an evaluation's results, or opens one that was made with the same settings. Returns the lock on
// it. A folder of an evaluation with other settings is a UserError that names the first difference; with `overwrite`
// its results are removed. A folder with other files is a UserError.
std::unique_ptr<FolderLock> open_result_folder(const std::string& folder, const Json& settings, bool overwrite);

// Returns a text that identifies the contents of a model folder, or of one file: names and checksums of the files, or
// for large files size and modification time.
std::string files_of_model(const std::string& path);

}  // namespace ravine

// The folder of an evaluation's results, and the settings of the results: OUTPUT/eval.json {"ravine": "eval",
// "settings": {..}}.
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "files/folder_lock.h"

namespace ravine {

// Makes and locks the folder, or opens one with the same settings. Returns its lock. Other settings are a UserError
// that names the first difference, as is a folder with other files. overwrite: removes an evaluation with other
// settings.
std::unique_ptr<FolderLock> open_result_folder(const std::string& folder, const Json& settings, bool overwrite);

// Returns a text that changes with the files of a model folder, or with one file: names and checksums, or for large
// files size and modification time.
std::string files_of_model(const std::string& path);

}  // namespace ravine

// Temporary names. A file or folder under construction, next to its target, has a random name that shows its owner:
//   NAME.ravine-<16 random digits><8 check digits>.tmp   under construction
//   NAME.ravine-<16 random digits><8 check digits>.old   a folder NAME that is being replaced
//
// The check digits are a checksum of the rest of the name, so that no file of the user is taken for a temporary.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "files/fd.h"

namespace ravine {

// The parts of the name of a temporary file or folder; the result of parse_temporary.
struct TemporaryName {
  std::string target;     // name of the final file or folder; only the beginning of a very long file name
  bool replaced = false;  // true for .old, a folder that is being replaced; false for .tmp
};

std::string random_digits();  // 16 hexadecimal digits from the kernel's random numbers
// Returns the path of a temporary file or folder for `target`, in the same folder: NAME.ravine-..tmp, or .old if
// `replaced`. `digits` are 16 hexadecimal digits.
std::string temporary_path(const std::string& target, const std::string& digits, bool replaced = false);
// Parses the name of a file or folder, without its folder; nothing if it is no name of a temporary.
std::optional<TemporaryName> parse_temporary(const std::string& name);

// Creates a file without a name in `folder`. The file ends with the process, unless name_file gives it a name. Returns
// no file if the file system has no nameless files.
Fd create_nameless_file(const std::string& folder);
// Gives a nameless file a temporary name next to `target`, and sets `path` to it.
void name_file(int fd, const std::string& target, std::string* path);
// Create a temporary file, or folder, next to `target` and set `path` to its path. The file or folder is locked while
// the returned descriptor is open, if the file system has locks.
Fd create_temporary_file(const std::string& target, std::string* path);
Fd create_temporary_folder(const std::string& target, std::string* path);
void remove_unused(const std::string& temporary);  // removes a temporary, unless it is locked
// Renames a folder to a temporary name, and then removes it. At every moment the folder is whole under its name, or its
// rest is a temporary that remove_leftovers removes.
void remove_whole(const std::string& folder, std::error_code& error);
// True if the process that made the temporary file or folder still holds its lock; false if the file system has no
// locks.
bool is_in_use(const std::string& temporary);

// Removes the temporary files for `target`, next to it, that killed writers left. A locked file stays, and so do all
// files if the file system has no locks.
void remove_left_files(const std::string& target);
// Returns the paths of the temporary folders (.tmp) for `target`, next to it, that killed writers left; sorted.
std::vector<std::string> leftovers_of(const std::string& target);
// Cleans up after killed writers directly inside `folder`, by name alone. Temporaries in use are skipped. A .tmp is
// removed. A .old gets its name back if its replacement has none; else it is removed. `mine` selects the targets; null
// selects all. No other process may begin to write these targets during the call. `foreign` returns the first file of a
// folder that is not Ravine's, or "". Such a folder stays, with a warning (for models: foreign_in_model,
// files/folder_mark.h).
void remove_leftovers(const std::string& folder, const std::function<bool(const std::string& target)>& mine = {},
                      const std::function<std::string(const std::string& leftover)>& foreign = {});

}  // namespace ravine

// What is being built beside its target has a name that nobody can guess and that says whose it is:
//   NAME.ravine-<16 random digits><8 check digits>.tmp   being written
//   NAME.ravine-<16 random digits><8 check digits>.old   a folder NAME that a new one is about to replace
// The check digits follow from all else in the name, so nothing that a user has named is ever taken for ours.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "files/fd.h"

namespace ravine {

struct TemporaryName {
  std::string target;     // NAME; of a file with a very long name only its beginning
  bool replaced = false;  // .old
};

std::string random_digits();  // 16 hexadecimal ones, from the kernel
// The path of a temporary for `target`, in its folder. `digits` are 16 hexadecimal ones.
std::string temporary_path(const std::string& target, const std::string& digits, bool replaced = false);
std::optional<TemporaryName> parse_temporary(const std::string& name);  // of a name without folder

// A new file in `folder` without a name, which goes with the process however that ends; none where the file system has no such
// files. name_file gives it its first.
Fd create_nameless_file(const std::string& folder);
void name_file(int fd, const std::string& target, std::string* path);  // a temporary name beside `target`
// A new file or folder beside `target`, locked as long as the descriptor is open (where the file system has locks).
Fd create_temporary_file(const std::string& target, std::string* path);
Fd create_temporary_folder(const std::string& target, std::string* path);
void remove_unused(const std::string& temporary);  // unless it is in use, or comes to be meanwhile
// Removes a folder by way of a temporary name: at every moment it is whole under its name, or what is left of it is what
// remove_leftovers removes.
void remove_whole(const std::string& folder, std::error_code& error);
bool is_in_use(const std::string& temporary);  // its maker lives and holds it; false where the file system has no locks

// Files for `target` that writers have left beside it who surely live no more: those that hold theirs, and those of file
// systems without locks, stay.
void remove_left_files(const std::string& target);
// Folders for `target` that killed writers have left beside it.
std::vector<std::string> leftovers_of(const std::string& target);
// Puts right what killed writers left directly inside `folder`: what was being written is removed, a folder whose replacement
// did not get its name has it again. By name alone, of targets that are the caller's (`mine`; null: all), and nothing that is
// in use. Nobody else may begin to write these meanwhile. A folder that was replaced and holds what is not ours stays, and is
// said: that `foreign` tells, by the first such name or "" (of models: foreign_in_model, files/folder_mark.h).
void remove_leftovers(const std::string& folder, const std::function<bool(const std::string& target)>& mine = {},
                      const std::function<std::string(const std::string& leftover)>& foreign = {});

}  // namespace ravine

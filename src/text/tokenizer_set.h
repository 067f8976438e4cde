// Writes the files of a tokenizer into a folder as one set: all of them appear together (files/file_set.h).
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace ravine {

struct FileSetKind;

// Returns the subfolder of `folder` in which the files wait for their final names.
std::string tokenizer_journal(const std::string& folder);
FileSetKind tokenizer_set();

// Writes files, given by name and text, into `folder`, which is created if necessary. overwrite: replaces all other
// tokenizer files there.
void write_tokenizer(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& files, bool overwrite);

}  // namespace ravine

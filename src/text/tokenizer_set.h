// The files of a tokenizer in a folder as one set: all of them appear together (files/file_set.h).
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace ravine {

struct FileSetKind;

// The folder in `folder` where they wait for their names.
std::string tokenizer_journal(const std::string& folder);
FileSetKind tokenizer_set();

// Writes files, by name, into `folder`, made if need be. `overwrite`: whatever else of a tokenizer lies there goes.
void write_tokenizer(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& files, bool overwrite);

}  // namespace ravine

// Writes the files of a tokenizer into a folder as one set: all of them appear together (files/file_set.h).
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace ravine {

struct FileSetKind;

// Returns the path of the subfolder of `folder` in which new tokenizer files are kept until all are complete and can be
// renamed (files/file_set.h).
std::string tokenizer_journal(const std::string& folder);
FileSetKind tokenizer_set();

// Writes the files of a tokenizer (pairs of name and text) into `folder`, which is created if necessary; all of them
// appear together. overwrite: true removes the tokenizer files that the folder had.
void write_tokenizer(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& files, bool overwrite);

}  // namespace ravine

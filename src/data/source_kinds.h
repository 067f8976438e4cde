// What the sources of a list are: the files of each, and of which kind these are.
#pragma once
#include <string>
#include <vector>

#include "data/dataset.h"

namespace ravine {

struct Files {
  enum Kind : uint8_t { text, chats, pairs, indexed, instructions, fixed };
  DataSource source;
  std::vector<std::string> paths;
  Kind kind = text;
};

bool holds_ids(const std::string& path);  // of a kind that needs no tokenizer

// The format of a source: its own, else that of all.
RecordFormat format_of(const DataSource& s, const DatasetOptions& o);

// key: the option that holds the list, for errors. fixed: whether all are fixed batch files. A weight of 0 or less, and kinds
// that do not mix, are UserErrors.
std::vector<Files> expand(const std::vector<DataSource>& sources, const char* key, const DatasetOptions& o, bool* fixed);

}  // namespace ravine

// The sources of a list: their files, and the kind of data of each.
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

bool holds_ids(const std::string& path);  // true if the file holds token ids and needs no tokenizer

// Returns the format of the source, or the default format if the source has none.
RecordFormat format_of(const DataSource& s, const DatasetOptions& o);

// Returns the files and the kind of each source. key: the option that holds the list, for errors; fixed: receives true
// if all are fixed batch files. A weight of 0 or less, and kinds that do not mix, are UserErrors.
std::vector<Files> expand(const std::vector<DataSource>& sources, const char* key, const DatasetOptions& o, bool* fixed);

}  // namespace ravine

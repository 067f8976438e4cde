// The sources of a list: their files, and the kind of data of each.
#pragma once
#include <string>
#include <vector>

#include "data/dataset.h"

namespace ravine {

// One source of a list of sources: its files, and the kind of their data. Filled by expand().
struct Files {
  enum Kind : uint8_t { text, chats, pairs, indexed, instructions, fixed };
  DataSource source;
  std::vector<std::string> paths;
  Kind kind = text;
};

bool holds_ids(const std::string& path);  // true if the file holds token ids and needs no tokenizer

// Returns the record format of a source; if the source has none, the default of the data section (data.format).
RecordFormat format_of(const DataSource& s, const DatasetOptions& o);

// Finds the files of each source in a list, and their kind. key: the option that holds the list (data.train), for
// errors. fixed: receives true if all sources are fixed batch files. A weight of 0 or less, and kinds that cannot be
// mixed, are UserErrors.
std::vector<Files> expand(const std::vector<DataSource>& sources, const char* key, const DatasetOptions& o, bool* fixed);

}  // namespace ravine

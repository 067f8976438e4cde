// The saved state of a preprocess run in its work folder, from which it resumes: state.json.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/indexed/indexed_writer.h"
#include "data/preprocess_report.h"

namespace ravine {

struct InputFile {
  std::string path;
  int64_t size = 0, modified = 0;  // bytes; nanoseconds
};
// Returns size and time of a file. A file that cannot be read is a UserError.
InputFile input_file(const std::string& path);
// Returns the files of all inputs, in order. A file that cannot be read is a UserError.
std::vector<InputFile> list_inputs(const std::vector<std::string>& inputs);

struct PreprocessState {
  std::string settings;  // ends with " name:type" of each list
  std::vector<InputFile> files;
  int64_t file = 0, record = 0;  // position of the reader: index of the file, and its completed records
  std::vector<IndexedWriter::Position> lists;
  PreprocessReport report;  // counts so far
  bool written = false;     // only the renaming of the files remains

  void save(const std::string& folder) const;
  // Returns the names of the lists in the state of this folder; nothing if the folder has no valid state.
  static std::optional<std::vector<std::string>> lists_in(const std::string& folder);
  // Loads the state; false if there is none. Other `settings`, or files that have changed, are a UserError.
  static bool load(const std::string& folder, const std::string& settings, const std::vector<InputFile>& files, size_t lists,
                   PreprocessState* state);
};

}  // namespace ravine

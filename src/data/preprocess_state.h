// The saved state of a preprocess run in its work folder, from which it resumes: state.json.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/indexed/indexed_writer.h"
#include "data/preprocess_report.h"

namespace ravine {

// An input file of a preprocess run, to find out if it has changed before the run is resumed.
struct InputFile {
  std::string path;
  int64_t size = 0, modified = 0;  // size in bytes; time of the last change in nanoseconds
};
// Returns path, size and modification time of a file. A file that cannot be read is a UserError.
InputFile input_file(const std::string& path);
// Returns the files that `inputs` (files, folders, globs) name, in order. A file that cannot be read is a UserError.
std::vector<InputFile> list_inputs(const std::vector<std::string>& inputs);

// The saved state of a preprocess run: position, settings and counts.
struct PreprocessState {
  std::string settings;  // the settings that change the ids, as text; it ends with " name:type" of each list
  std::vector<InputFile> files;
  int64_t file = 0, record = 0;  // position of the reader: index in `files`, and number of completed records in it
  std::vector<IndexedWriter::Position> lists;
  PreprocessReport report;  // counts so far
  bool written = false;     // true: all output is written, and only the renaming of the files remains

  void save(const std::string& folder) const;
  // Returns the names of the token lists of the run whose state is in this folder; nothing if it has no valid state.
  static std::optional<std::vector<std::string>> lists_in(const std::string& folder);
  // Loads the state in a work folder into *state; false if there is none. A state with other settings than `settings`,
  // or with other input files than `files` (also changed ones), is a UserError. lists: the number of token lists.
  static bool load(const std::string& folder, const std::string& settings, const std::vector<InputFile>& files, size_t lists,
                   PreprocessState* state);
};

}  // namespace ravine

// What a preprocess run leaves in its work folder to go on from: state.json.
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
InputFile input_file(const std::string& path);  // as it lies there; UserError if it cannot be read
std::vector<InputFile> list_inputs(
    const std::vector<std::string>& inputs);  // files of all, in order; UserError if one cannot be read

struct PreprocessState {
  std::string settings;  // ends in " name:type" of each list
  std::vector<InputFile> files;
  int64_t file = 0, record = 0;  // where reading goes on: records of that file which are done
  std::vector<IndexedWriter::Position> lists;
  PreprocessReport report;  // counters so far
  bool written = false;     // nothing is left but to give the files their names

  void save(const std::string& folder) const;
  // The names of the lists that the state in this folder is of; nothing if there is none of ours.
  static std::optional<std::vector<std::string>> lists_in(const std::string& folder);
  // False if there is none. What does not fit `settings` or the files as they are now is a UserError.
  static bool load(const std::string& folder, const std::string& settings, const std::vector<InputFile>& files, size_t lists,
                   PreprocessState* state);
};

}  // namespace ravine

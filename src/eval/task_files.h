// Finds the files of a benchmark in the data folder, in the layouts of its authors and of Hugging Face's hub.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

// A data file of a benchmark: the result of find_task_files().
struct TaskFile {
  std::string path;
  std::string subject;  // the text that matched * in the pattern; without a *: the file name up to its first '.'
};

// Returns the data files of a benchmark, sorted by name. The first pattern that matches any file selects the files. A
// pattern is a path with one * in it ("test/*_test.csv"). Its folder is DATA/TASK, or DATA if DATA/TASK does not exist.
// Names may also end in .gz, .zst or .xz. No file is a UserError that names patterns and folder.
std::vector<TaskFile> find_task_files(const std::string& data, const std::string& task,
                                      const std::vector<std::string>& patterns);
// Returns the same files as find_task_files(), but an empty list if no pattern matches.
std::vector<TaskFile> look_for_task_files(const std::string& data, const std::string& task,
                                          const std::vector<std::string>& patterns);

// A record of a data file (.jsonl, .parquet): an object, and its place FILE:LINE for messages.
struct TaskRecord {
  Json json;
  std::string where;
};
// Returns all records of a file. More than a million records, a record that is no object, and text that is not UTF-8
// are UserErrors.
std::vector<TaskRecord> read_task_records(const std::string& path);

// Returns the text under a key of a record; "" if it is missing or null. Another type is a UserError that names
// `where`.
std::string text_or_nothing(const Json& record, const std::string& key, const std::string& where);

}  // namespace ravine

// Finds the files of a benchmark in the data folder, in the layouts of its authors and of Hugging Face's hub.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

// A file of a benchmark.
struct TaskFile {
  std::string path;
  std::string subject;  // the text for * in the pattern; without a *: the file name up to its first '.'
};

// Returns the files, sorted by name, of the first pattern that matches any ("test/*_test.csv": one * in a part of the
// path). The root is DATA/TASK, or DATA if that does not exist. Names may end in .gz, .zst or .xz. No file is a
// UserError that names patterns and root.
std::vector<TaskFile> find_task_files(const std::string& data, const std::string& task,
                                      const std::vector<std::string>& patterns);
// As find_task_files, but returns an empty list if there is no file.
std::vector<TaskFile> look_for_task_files(const std::string& data, const std::string& task,
                                          const std::vector<std::string>& patterns);

// An object of a records file (.jsonl, .parquet), with its position for messages.
struct TaskRecord {
  Json json;
  std::string where;
};
// Returns all records of a file. More than a million records, a record that is no object, and text that is not UTF-8
// are UserErrors.
std::vector<TaskRecord> read_task_records(const std::string& path);

// Returns the text of a key; "" if it is missing or null.
std::string text_or_nothing(const Json& record, const std::string& key, const std::string& where);

}  // namespace ravine

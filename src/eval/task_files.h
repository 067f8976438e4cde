// Where the files of a benchmark lie below the folder of all data, as its authors or Hugging Face's hub lay them out.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace ravine {

struct TaskFile {
  std::string path;
  std::string subject;  // what * stands for in the pattern; without one the file's name up to its first '.'
};

// The files, by name, of the first of `patterns` ("test/*_test.csv": one * in one of its parts) that has some, in DATA/TASK, or
// in DATA where that is the folder of the task itself; .gz, .zst and .xz may follow. None: a UserError that says what was
// looked for where.
std::vector<TaskFile> find_task_files(const std::string& data, const std::string& task,
                                      const std::vector<std::string>& patterns);
// The same; none: an empty list.
std::vector<TaskFile> look_for_task_files(const std::string& data, const std::string& task,
                                          const std::vector<std::string>& patterns);

// One object of a file of records (.jsonl, .parquet), with the place it stands at for messages.
struct TaskRecord {
  Json json;
  std::string where;
};
// All of them. More than a million, one that is no object, or text that is not UTF-8 is a UserError.
std::vector<TaskRecord> read_task_records(const std::string& path);

// "" for a key that is absent or null.
std::string text_or_nothing(const Json& record, const std::string& key, const std::string& where);

}  // namespace ravine

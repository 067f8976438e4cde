// The file samples_TASK.jsonl: one line per item in the order of the data, {"id", "prompt", "output" | "logprobs",
// "parsed", "answer", "correct"}. Lines are appended while the task runs, and a stopped evaluation continues after
// them.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "eval/item.h"
#include "eval/results.h"
#include "files/appended_file.h"

namespace ravine {

// The file samples_TASK.jsonl of a task: one line per answered item. Lines are appended while the task runs.
class SampleFile {
 public:
  // Opens FOLDER/samples_TASK.jsonl, or creates it. Existing lines must be the samples of the first items, in order, by
  // id and prompt; a difference is a UserError. An incomplete last line of a killed run is removed.
  SampleFile(const std::string& folder, const std::string& task, const std::vector<Item>& items);

  size_t size() const { return lines_.size(); }
  const std::vector<Json>& lines() const { return lines_; }
  void append(Json line);
  const std::string& path() const { return file_.path(); }

 private:
  std::vector<Json> lines_;
  AppendedFile file_;
};

std::string samples_path(const std::string& folder, const std::string& task);
// Returns the lines of a file samples_TASK.jsonl, without an incomplete last line. whole_bytes: if not null, is
// increased by the number of bytes of the complete lines.
std::vector<Json> read_samples(const std::string& path, int64_t* whole_bytes = nullptr);
// Returns the result of the item of a samples line. where: file and line, for errors.
Outcome outcome_of(const Json& line, const std::string& where);

}  // namespace ravine

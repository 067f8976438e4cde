// samples_TASK.jsonl: a line per item in the order of the data, {"id", "prompt", "output" | "logprobs", "parsed", "answer",
// "correct"}, which grows while the task runs, and from which a run that was stopped goes on.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "eval/item.h"
#include "eval/results.h"
#include "files/appended_file.h"

namespace ravine {

class SampleFile {
 public:
  // FOLDER/samples_TASK.jsonl. Whole lines that are there already must be of the first items, in order, by id and prompt: else
  // a UserError. What a killed run left of a line is cut off.
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
// Lines of such a file; cut: the last one, where it lacks its end, is left out.
std::vector<Json> read_samples(const std::string& path, int64_t* whole_bytes = nullptr);
Outcome outcome_of(const Json& line, const std::string& where);

}  // namespace ravine

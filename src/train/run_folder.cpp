#include "train/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json.h"
#include "files/atomic.h"
#include "files/compressed.h"
#include "files/folder_mark.h"
#include "files/same_path.h"
#include "files/temporary.h"
#include "io/checkpoint.h"
#include "io/huggingface.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// What a run writes directly in its folder.
constexpr const char* kNames[] = {"checkpoints", "config.yaml", "exported", "log.txt", "metrics.jsonl", "model", "stop", "tensorboard", "tokens", ".lock", kFolderMark};

// Files and folders that a run reads, by the option that names them.
std::vector<std::pair<std::string, std::string>> inputs_of(const Config& c) {
  std::vector<std::pair<std::string, std::string>> in{{"model.path", c.model.path}, {"model.config", c.model.config}, {"model.tokenizer", c.model.tokenizer}};
  for (const DataSource& s : c.data.train) in.emplace_back("data.train", s.path);
  for (const DataSource& s : c.data.valid) in.emplace_back("data.valid", s.path);
  in.emplace_back("data.chat_template", c.data.chat_template);
  std::error_code error;
  std::erase_if(in, [&](const auto& i) { return i.second.empty() || !fs::exists(fs::path(i.second), error); });
  return in;
}

void refuse_overlap(const Config& c) {
  const std::string& out = c.train.output;
  std::error_code error;
  for (const auto& [key, path] : inputs_of(c)) {
    // A folder of a tokenizer may hold runs beside it.
    if (same_path(out, path) || (key != "model.tokenizer" && lies_within(out, path)))
      throw UserError(fmt::format("train.output is {}{}", same_path(out, path) ? "" : "inside ", key), out, fmt::format("what is read from, here '{}', is not written to", path),
                      "choose another train.output");
    for (const char* name : kNames)
      if (lies_within(path, out + "/" + name))
        throw UserError(fmt::format("{} is what the run writes", key), path, fmt::format("'{}' in train.output is the run's own, and what is read from is not written to", name),
                        "choose another train.output");
  }
}

bool has_checkpoint(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!checkpoint_step(entry.path().filename().string())) continue;
    if (!fs::is_regular_file(entry.path() / "manifest.json", error)) continue;
    std::ifstream in(entry.path() / "manifest.json");
    std::string start(200, '\0');
    in.read(start.data(), static_cast<std::streamsize>(start.size()));
    if (start.find("\"format\":\"ravine-checkpoint\"") != std::string::npos) return true;
  }
  return false;
}

// To be asked before a file is opened: the open of a pipe waits for a writer.
bool is_plain(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// A config as runs write it: every section, no comment.
bool is_written_config(const std::string& path) {
  if (!is_plain(path)) return false;
  std::ifstream in(path);
  std::string first, second;
  return std::getline(in, first) && std::getline(in, second) && first == "model:" && second.starts_with("  path: ");
}

bool is_metrics(const std::string& path) {
  if (!is_plain(path)) return false;
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return false;
  const Json j = Json::parse(line, nullptr, false);
  return j.is_object() && j.contains("step");
}

// A run of a version that left no mark; also a checkpoint that `convert` has written.
bool is_run_without_mark(const std::string& folder) {
  return has_checkpoint(folder + "/checkpoints") || (is_written_config(folder + "/config.yaml") && is_metrics(folder + "/metrics.jsonl"));
}

}  // namespace

std::string run_that_owns(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  for (fs::path name = whole; name.has_relative_path(); name = name.parent_path()) {
    const std::string run = name.parent_path().string();
    if (std::find(std::begin(kNames), std::end(kNames), name.filename().string()) == std::end(kNames)) continue;
    const auto mark = read_mark(run);
    if ((mark && mark->files.empty()) || is_run_without_mark(run)) return run;
  }
  return "";
}

RunFolder::RunFolder(const Config& config) : folder_(config.train.output) {
  while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
  std::error_code error;
  if (fs::exists(folder_, error) && !fs::is_directory(folder_, error)) throw UserError("train.output is a file", folder_, "a run writes a folder", "choose another train.output");
  refuse_overlap(config);
  for (const char* name : {"config.yaml", "exported", "log.txt", "metrics.jsonl", "stop", ".lock", "checkpoints/latest"})
    if (const auto status = fs::status(path(name), error); fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
      throw UserError("no plain file has the name of one", path(name), "a run reads and writes a plain file there, not a pipe or a device", "remove it, or choose another train.output");
  const auto mark = read_mark(folder_);
  if (mark) run_ = mark->run;
  if (!mark && !is_run_without_mark(folder_))
    for (const char* name : kNames) {
      const bool lock = name == std::string_view(".lock");  // a run that was killed before it had its mark; the lock knows its own
      if (!lock && fs::exists(fs::symlink_status(path(name), error)))
        throw UserError("train.output holds files of others", path(name), "no run has made this folder, and a run would write this name", "choose another train.output, or move it away");
    }
  refuse_foreign_model(path("model"), run_.empty() ? "of no run" : run_);
}

void RunFolder::hold() {
  if (lock_) return;
  create_folders(folder_);
  lock_ = std::make_unique<FolderLock>(folder_);
  if (run_.empty()) {
    run_ = random_digits() + random_digits();
    write_mark(folder_, {run_, {}});
  }
  remove_leftovers(folder_);
}

void RunFolder::write_config(const std::string& text) const {
  const std::string file = path("config.yaml");
  std::error_code error;
  if (fs::exists(fs::symlink_status(file, error))) {
    std::string had;
    bool written = false;
    try {
      had = read_whole(file, int64_t{64} << 20);
      written = to_yaml(parse_config(had, file)) == had;
    } catch (const std::exception&) {
    }
    if (had == text) return;
    if (!written) {
      int n = 1;
      while (fs::exists(fs::symlink_status(folder_ + fmt::format("/config.edited-{}.yaml", n), error))) ++n;
      fs::rename(file, folder_ + fmt::format("/config.edited-{}.yaml", n));
    }
  }
  write_file_atomic(file, text);
}

}  // namespace ravine

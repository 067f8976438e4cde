#include "runs/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>
#include <sstream>

#include <fmt/ranges.h>

#include "base/json.h"
#include "base/shell_word.h"
#include "config/load.h"
#include "data/source.h"
#include "files/atomic.h"
#include "files/checksum.h"
#include "files/compressed.h"
#include "files/folder_mark.h"
#include "files/read_head.h"
#include "files/same_path.h"
#include "files/temporary.h"
#include "io/checkpoint.h"
#include "io/checkpoint_health.h"
#include "io/huggingface.h"
#include "io/open_weights.h"
#include "io/run_files.h"
#include "runs/stop_request.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// The names that a run writes in its folder.
constexpr const char* kNames[] = {
    "checkpoints", "config.yaml", "exported", kHealthFile, "log.txt",   "metrics.jsonl",         "adapter", "model",
    "stop",        "tensorboard", "tokens",   ".lock",     kFolderMark, "reference.safetensors", ".saving"};
std::string edited_name(int n) { return fmt::format("config.edited-{}.yaml", n); }  // name of an edited config.yaml

bool is_numbered(std::string_view name, std::string_view before, std::string_view behind) {
  if (!name.starts_with(before) || !name.ends_with(behind) || name.size() <= before.size() + behind.size()) return false;
  return name.substr(before.size(), name.size() - before.size() - behind.size()).find_first_not_of("0123456789") ==
         std::string_view::npos;
}

// True if a run writes this name. Numbered names take the next free number (as save_model_folder does), so they
// overwrite nothing, but their files belong to the run.
bool is_name_of_run(const std::string& name) {
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         is_numbered(name, "config.edited-", ".yaml") || is_numbered(name, "model.new-", "");
}

struct Input {
  std::string key, path;
  bool whole;  // a folder in which nothing may be written
};

// Returns the existing files and folders that a run reads, from the option table.
std::vector<Input> inputs_of(const Config& config) {
  Config copy = config;
  std::vector<Input> in;
  auto add = [&](const Option& o, const std::string& key) {
    if (o.rule.path == Rule::Path::reads || o.rule.path == Rule::Path::reads_folder)
      in.push_back({key, o.path(), o.rule.path == Rule::Path::reads_folder});
  };
  for (const Section& s : sections_of(copy))
    for (const Option& o : s.options) {
      add(o, o.name());
      if (const auto* records = std::get_if<std::shared_ptr<Records>>(&o.target))
        for (size_t i = 0; i < (*records)->size(); ++i)
          for (const Option& field : (*records)->fields(i)) add(field, o.name());
    }
  std::error_code error;
  for (size_t i = 0, n = in.size(); i < n; ++i) {  // replaces a pattern by its files
    if (in[i].path.find_first_of("*?[") == std::string::npos || fs::exists(in[i].path, error)) continue;
    try {
      const std::string key = in[i].key;
      for (const std::string& file : source_files(in[i].path)) in.push_back({key, file, false});
    } catch (const UserError&) {  // the reader of the source reports the mistake
    }
  }
  std::erase_if(in, [&](const Input& i) { return i.path.empty() || !fs::exists(fs::path(i.path), error); });
  return in;
}

bool is_checkpoint_name(const std::string& resume) { return resume != kResumeNewest && resume != kResumeNone; }

void refuse_overlap(const Config& c, const CheckpointFiles* files) {
  const std::string& out = c.train.output;
  for (const auto& [key, path, whole] : inputs_of(c)) {
    // A run may resume from its own checkpoints: it replaces none of them by another.
    if (key == "checkpoint.resume" && lies_within(path, files ? files->folder(c) : out + "/checkpoints")) continue;
    const bool inside = whole || key == "checkpoint.resume";
    if (same_path(out, path) || (inside && lies_within(out, path)))
      throw UserError(fmt::format("train.output is {}{}", same_path(out, path) ? "" : "inside ", key), out,
                      fmt::format("an input of the run, here '{}', is not written to", path), "choose another train.output");
    for (const char* name : kNames)
      if (lies_within(path, out + "/" + name))
        throw UserError(fmt::format("{} is a file or folder that the run writes", key), path,
                        fmt::format("the run writes '{}' in train.output, and an input of the run is not written to", name),
                        "choose another train.output");
  }
}

// Returns the newest step of the checkpoint folders, by their names; -1: none.
int64_t newest_step(const std::string& checkpoints) {
  int64_t newest = -1;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints, error))
    newest = std::max(newest, checkpoint_step(entry.path().filename().string()).value_or(-1));
  return newest;
}

// True if the folder has a checkpoint with a valid manifest. The name alone is not enough.
bool has_checkpoint(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (checkpoint_step(entry.path().filename().string()) && manifest_names_checkpoint(entry.path().string())) return true;
  return false;
}

// True if the file is a config as runs write it: all sections, no comments.
bool is_written_config(const std::string& path) {
  constexpr std::string_view kBegin = "model:\n  path: ";
  return read_head(path, kBegin.size()) == kBegin;
}

bool is_metrics(const std::string& path) {
  const std::string head = read_head(path, kMetricsLine);
  const Json j = Json::parse(head.substr(0, head.find('\n')), nullptr, false);
  return j.is_object() && j.contains("step");
}

// True for a run of a version without marks, and for a checkpoint that `convert` has written.
bool is_run_without_mark(const std::string& folder) {
  return has_checkpoint(folder + "/checkpoints") ||
         (is_written_config(folder + "/config.yaml") && is_metrics(folder + "/metrics.jsonl"));
}

// True if the mark is of a run. A mark without a kind is of a run if it lists only names that runs write. Marks of
// other folders list all their files.
bool is_run_mark(const FolderMark& mark) {
  if (!mark.kind.empty()) return mark.kind == kRunFolder;
  return std::all_of(mark.files.begin(), mark.files.end(),
                     [](const auto& f) { return is_name_of_run(f.first.substr(0, f.first.find('/'))); });
}

// True if all lines of `text` are in `all`, in this order.
bool lines_within(const std::string& text, const std::string& all) {
  std::istringstream wanted(text), in(all);
  for (std::string line, have; std::getline(wanted, line);) {
    do {
      if (!std::getline(in, have)) return false;
    } while (have != line);
  }
  return true;
}

}  // namespace

std::string run_path(const Config& config, const std::string& name) { return (fs::path(config.train.output) / name).string(); }

bool is_run(const std::string& folder) {
  const auto mark = read_mark(folder);
  return mark ? is_run_mark(*mark) : is_run_without_mark(folder);
}

std::string run_that_owns(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  for (fs::path name = whole; name.has_relative_path(); name = name.parent_path()) {
    std::string run = name.parent_path().string();
    if (!is_name_of_run(name.filename().string())) continue;
    if (is_run(run)) return run;
  }
  return "";
}

std::string run_in(const std::string& folder) {
  try {
    const std::string file = folder + "/config.yaml";
    const Config c = parse_config(read_whole(file, int64_t{4} << 20), file);
    std::vector<std::string> sources;
    for (const DataSource& s : c.data.train) sources.push_back(s.path);
    return fmt::format("{} on data.train=[{}]",
                       c.model.path.empty() ? "model.config=" + model_label(c.model) : "model.path=" + c.model.path,
                       fmt::join(sources, ", "));
  } catch (const std::exception&) {
    return "";
  }
}

RunFolder::RunFolder(const Config& config, std::shared_ptr<const CheckpointFiles> files)
    : files_(std::move(files)),
      folder_(config.train.output),
      resume_(config.checkpoint.resume),
      exported_(exported_name(config)) {
  while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
  refuse_overlap(config, files_.get());
  look(false);
}

int64_t RunFolder::newest() const { return files_ ? files_->newest_step(folder_) : newest_step(path("checkpoints")); }

void RunFolder::look(bool whole) {
  std::error_code error;
  if (fs::exists(folder_, error) && !fs::is_directory(folder_, error))
    throw UserError("train.output is a file", folder_, "a run writes a folder", "choose another train.output");
  for (const char* name :
       {"config.yaml", "exported", kHealthFile, "log.txt", "metrics.jsonl", "stop", ".lock", "checkpoints/latest"})
    if (const auto status = fs::status(path(name), error);
        fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
      throw UserError("not a plain file", path(name), "a run reads and writes a plain file there, not a pipe or a device",
                      "remove it, or choose another train.output");
  if (const std::string run = run_that_owns(folder_); !run.empty())
    throw UserError("train.output is inside another run", folder_,
                    fmt::format("the run in {} writes there, and two runs would mix", run), "choose another train.output");
  const auto mark = read_mark(folder_);
  if (mark && !is_run_mark(*mark))
    throw UserError(mark->kind == kModelFolder || mark->kind.empty()
                        ? "train.output is a model that a run has exported"
                        : fmt::format("train.output is a folder of `ravine {}`", mark->kind),
                    folder_, "a run writes into a folder that is new, or its own", "choose another train.output");
  mark_ = mark.value_or(FolderMark{});
  const bool begun = mark || is_run_without_mark(folder_);
  // a run of another program, where `ravine convert` has written config.json
  const bool goes_on = files_ && newest() >= 0;
  if (!begun && !goes_on && fs::exists(path("config.json"), error) && !weight_files(folder_).empty())
    throw UserError("train.output holds a model", folder_, "a run writes into a folder that is new, or its own",
                    "choose another train.output");
  if (!begun && fs::exists(path("run.yaml"), error) &&
      (fs::exists(path("tokenizer"), error) || fs::exists(path("base"), error)))
    throw UserError("train.output is a folder of `ravine init`", folder_,
                    "this folder stands for its run, which must be a folder inside it",
                    fmt::format("set train.output={}, as in its run.yaml, or another folder", shell_word(path("run"))));
  if (!begun)
    for (const char* name : kNames) {
      const bool lock =
          // of a run that was killed before it had its mark; the lock protects itself
          name == std::string_view(".lock");
      if (!lock && fs::exists(fs::symlink_status(path(name), error)))
        throw UserError("train.output has files that no run has made", path(name), "a run would write a file of this name",
                        "choose another train.output, or move it away");
    }
  refuse_foreign_model(path(exported_), run().empty() ? "of no run" : run(), whole ? &model_seen_ : nullptr);
  refuse_other_run();
}

// Throws a UserError if the run would replace a finished model unasked, or start anew because its checkpoints are
// missing.
void RunFolder::refuse_other_run() const {
  const int64_t newest = this->newest();
  std::error_code error;
  const bool model = fs::is_directory(path(exported_), error) && !fs::is_empty(path(exported_), error);
  const std::string of = run_in(folder_), there = of.empty() ? "" : fmt::format(", of a run of {}", of);
  if (resume_ == kResumeNone) {
    if (newest >= 0)
      throw UserError("train.output already holds checkpoints", folder_,
                      "with checkpoint.resume=none a run begins anew and would mix with them",
                      fmt::format("choose another train.output, move {} away, or use checkpoint.resume=auto",
                                  path(files_ ? files_->pattern() : "checkpoints/step_*")));
    return;
  }
  if (is_checkpoint_name(resume_)) {
    if (lies_within(resume_, files_ ? folder_ : path("checkpoints")) || (newest < 0 && !model)) return;
    if (!fs::exists(resume_, error)) {  // the reader reports that it is missing
      const std::string own = path("checkpoints/" + resume_);
      if (!fs::is_directory(own, error)) return;
      throw UserError("no such folder", "checkpoint.resume=" + resume_,
                      "it names the folder of a checkpoint, or is auto or none", fmt::format("did you mean {}?", own));
    }
    throw UserError(
        fmt::format("train.output already holds another run{}",
                    newest < 0 ? "" : ", saved after step " + std::to_string(newest)),
        folder_,
        fmt::format(
            "checkpoint.resume names a checkpoint of another folder, '{}', and a run that goes on from there would mix with it",
            resume_),
        newest < 0 ? "choose another train.output"
                   : "choose another train.output, or go on with what is there by checkpoint.resume=auto");
  }
  if (newest >= 0) return;
  // publish_left converts it to the checkpoint to resume from
  if (files_ && first_step_to_try(path(".saving"))) return;
  std::string saved;
  for (const auto& [file, entry] : mark_.files)
    if (file.starts_with("checkpoints/")) saved = fs::path(file).parent_path().string();
  const std::string begin = "choose another train.output, or set checkpoint.resume=none to begin anew";
  if (!saved.empty())
    throw UserError(
        fmt::format("the checkpoints of this run are gone{}", there), path(saved),
        "a checkpoint was saved there; without it the same command would begin anew and overwrite files of the run (checkpoints of another checkpoint.layout are not used)",
        fmt::format("put it back, {}{}", begin, model ? " and replace train.output/model" : ""));
  if (model)
    throw UserError(
        fmt::format("train.output holds a finished model and no checkpoint{}", there), path(exported_),
        "a run resumes from its checkpoints (of its checkpoint.layout); a run that begins anew would replace the model",
        begin + " and replace it");
}

void RunFolder::hold() {
  if (lock_) return;
  create_folders(folder_);
  lock_ = std::make_unique<FolderLock>(folder_);
  clear_stop_request(folder_);  // of an earlier run; a later request is for this run
  look(true);
  const bool anew = newest() < 0;
  const size_t had = mark_.files.size();
  if (anew) std::erase_if(mark_.files, [](const auto& f) { return f.first.starts_with("checkpoints/"); });
  if (mark_.run.empty() || mark_.kind.empty() || mark_.files.size() != had) {
    if (mark_.run.empty()) mark_.run = new_run_id();
    mark_.kind = kRunFolder;
    write_mark(folder_, mark_);
  }
  remove_leftovers(folder_, is_name_of_run, foreign_in_model);
}

void RunFolder::check_there() const {
  if (lock_ && !lock_->in_place())
    fail(
        "the folder of the run is gone ({}): it was removed or renamed while the run wrote there, and no part of it is made again; what was saved is where the folder is now, if anywhere",
        folder_);
}

std::string RunFolder::export_problem() const {
  const auto mark = read_mark(path(exported_));
  if (!mark) return fmt::format("{} is not there", path(exported_));
  if (const std::string changed = changed_in_folder(path(exported_), *mark); !changed.empty())
    throw UserError("the exported model is damaged, or was changed", path(exported_ + "/" + changed),
                    "it is not what the run has written", "move it away: the same command then exports it again");
  const std::string missing = missing_in_folder(path(exported_), *mark);
  return missing.empty() ? "" : fmt::format("{} lacks {}", path(exported_), missing);
}

void RunFolder::note(const std::string& file) {
  try {
    mark_.files[file] = {static_cast<int64_t>(fs::file_size(path(file))), checksum_text(checksum_of_file(path(file)))};
    write_mark(folder_, mark_);
  } catch (const std::exception&) {
  }
}

void RunFolder::note_saved(int64_t step) {
  std::erase_if(mark_.files, [](const auto& f) { return f.first.starts_with("checkpoints/"); });
  note("checkpoints/" + checkpoint_name(step) + "/manifest.json");
}

// True if config.yaml is as the run wrote it, by the mark. Without a record in the mark: if this version would write
// all of its lines, too (older versions had fewer options).
bool RunFolder::unedited(const std::string& file) const {
  try {
    const std::string had = read_whole(file, int64_t{64} << 20);
    if (const auto known = mark_.files.find("config.yaml"); known != mark_.files.end())
      return known->second.checksum == checksum_text(checksum_of(std::as_bytes(std::span(had))));
    return lines_within(had, to_yaml(parse_config(had, file)));
  } catch (const std::exception&) {
    return false;
  }
}

void RunFolder::keep_edited() const {
  const std::string file = path("config.yaml");
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error)) || unedited(file)) return;
  int n = 1;
  while (fs::exists(fs::symlink_status(path(edited_name(n)), error))) ++n;
  fs::rename(file, path(edited_name(n)));
}

void RunFolder::write_config(const std::string& text) {
  const std::string file = path("config.yaml");
  std::error_code error;
  const auto known = mark_.files.find("config.yaml");
  if (fs::exists(fs::symlink_status(file, error)) && known != mark_.files.end() &&
      known->second.checksum == checksum_text(checksum_of(std::as_bytes(std::span(text)))) && unedited(file))
    return;
  write_file_atomic(file, text, [&](const std::string&) { keep_edited(); });
  note("config.yaml");
}

}  // namespace ravine

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "apps/command.h"
#include "apps/info_data.h"
#include "apps/info_dump.h"
#include "apps/info_kinds.h"
#include "apps/info_parts.h"
#include "apps/info_runs.h"
#include "apps/info_tensors.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/missing_path.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "data/indexed/indexed_file.h"
#include "data/source.h"
#include "files/folder_mark.h"
#include "files/safetensors.h"
#include "files/tokenizer_files.h"
#include "io/adapter_folder.h"
#include "io/checkpoint.h"
#include "io/convert/convert.h"
#include "io/convert/dist_folder.h"
#include "io/convert/trainer_state.h"
#include "io/foreign_kinds.h"
#include "io/run_files.h"
#include "model/quantised.h"
#include "probe/dump_kinds.h"
#include "runs/run_folder.h"
#include "runs/run_paths.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

struct InfoFlags {
  std::string path;
  DataInfoOptions data;
  bool tensors = false, json = false;
  template <class V>
  void each(V&& v) {
    v("path", path, "file or folder: model, checkpoint, run, adapter, tokenizer, config, data, event files, ..",
      positional() & required() & metavar("PATH") & reads());
    v("tokenizer", data.tokenizer, "tokenizer that shows samples of data as text, with the learned tokens marked",
      metavar("DIR-or-FILE") & reads());
    v("template", data.chat_template, "chat template to show conversations with; empty: the tokenizer's own",
      metavar("NAME-or-FILE") & reads() & or_words(template_words()));
    v("samples", data.samples, "samples of data to show", between(0, 1e6));
    v("tensors", tensors, "list every tensor of a folder, or every record of a dump with its figures");
    v("json", json, "print one JSON object");
  }
};

// Describes RUN/tokens, whose files are named by checksums of their sources.
std::optional<Json> kept_tokens(const std::string& path) {
  std::error_code error;
  int64_t files = 0, bytes = 0;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string file = entry.path().string();
    if (!entry.is_regular_file(error) || !file.ends_with(".safetensors")) return {};
    try {
      if (!kind_of_tensors(SafetensorsReader(file).metadata()).starts_with("tokens")) return {};
    } catch (const UserError&) {
      return {};
    }
    ++files;
    bytes += static_cast<int64_t>(entry.file_size(error));
  }
  if (files == 0) return {};
  return Json{{"kind", "tokens that a run keeps for its next start"},
              {"path", path},
              {"files", files},
              {"bytes", bytes},
              {"to_use_it", "the run finds them by itself; without them it reads its texts again"}};
}

// Describes a folder of .bin/.idx files.
std::optional<Json> folder_of_token_files(const std::string& path) {
  const std::vector<std::string> prefixes = indexed_prefixes_in(path);
  if (prefixes.empty()) return {};
  std::string list;
  for (const std::string& p : prefixes) list += (list.empty() ? "" : ", ") + p;
  return Json{{"kind", "folder of token files"},
              {"path", path},
              {"prefixes", prefixes},
              {"to_use_it", fmt::format("ravine info {}; data.train=[{}] in train", shell_word(prefixes.front()), list)}};
}

// Describes a checkpoint of another program: its kind, its content, and the command that converts it.
Json foreign_checkpoint(const std::string& path, const Recognised& r, bool list) {
  Json j{{"kind", r.what}, {"path", path}};
  j["to_use_it"] = fmt::format("ravine convert --input {} --output DIR --to hf", path);
  try {
    const ConvertReport report = convert_weights({.input = path, .from = r.layout, .dry_run = true}, [](int64_t, int64_t) {});
    j["tensors"] = report.rows.size();
    j["bytes"] = report.bytes;
    for (const std::string& note : report.notes) j["notes"].push_back(note);
    for (const ConvertRow& t : report.rows)
      if (list) j["tensor_list"].push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", parse_json(t.shape, path)}});
  } catch (const UserError& e) {
    j["problem"] = e.what();
  }
  return j;
}

Json model_folder(const std::string& path, bool list) {
  Json j{{"kind", "model"}, {"path", path}};
  const auto r = recognise(path);
  if (r && r->layout == WeightLayout::trainer) {
    j["kind"] = r->what;
    add_trainer_run(j, path);
  }
  if (r && (r->layout == WeightLayout::hf || r->layout == WeightLayout::trainer)) {
    j["weights"] = r->what;
    if (const auto mark = read_mark(path); mark && mark->kind == kModelFolder)
      j["made_by"] = "a run of ravine, which exported it";
    if (fs::exists(path + "/config.json"))
      j["to_use_it"] = fmt::format("model.path={} in train, --model in generate and trace, or ravine convert", path);
  }
  if (fs::exists(path + "/config.json")) j["config"] = read_run_json(path + "/config.json");
  if (const auto kind = foreign_kind(path)) j["kind"] = kind->what, j["to_use_it"] = kind->fix;
  if (const auto kept = j.contains("config") ? quantised(j["config"], path + "/config.json") : std::nullopt)
    j["kind"] = "model with " + kept->what, j["to_use_it"] = kept->fix;
  if (has_tensors(path))
    add_tensors(j, path, list);
  else if (j.contains("config"))
    add_model_config(j, j["config"], path + "/config.json");
  if (has_tokenizer(path)) {
    try {
      add_tokenizer(j, path);
    } catch (const UserError& e) {
      j["tokenizer_error"] = e.what();
    }
  }
  return j;
}

Json describe(const std::string& path, bool list, const DataInfoOptions& data) {
  const std::string file = fs::path(path).filename().string();
  if (!fs::is_directory(path)) {
    if (auto j = describe_file_kind(path)) return *j;
    if (auto j = describe_part(path)) return *j;
    if (const auto kind = fs::exists(path) ? foreign_kind(path) : std::nullopt)
      return {{"kind", kind->what}, {"path", path}, {"to_use_it", kind->fix}};
    if (auto j = describe_data(path, data)) return *j;
  } else if (auto j = find_adapter(path) ? describe_folder_kind(path) : std::nullopt) {
    return *j;
  }
  if (!fs::exists(path)) {
    refuse_unfinished_prefix(path);
    if (const std::string near = near_indexed_prefix(path); !near.empty()) return *describe_data(near, data);
    throw UserError("no such file or folder", path, "it must exist", missing_path_advice(path));
  }
  if ((fs::is_directory(path) && !is_run(path)) || file.ends_with(".ckpt"))
    if (const auto r = recognise(path); r && (r->layout != WeightLayout::hf || is_dist_folder(path)) &&
                                        r->layout != WeightLayout::trainer && r->layout != WeightLayout::ravine)
      return foreign_checkpoint(path, *r, list);
  if (fs::is_directory(path)) {
    if (dump_kind(path)) return describe_dump(path, list);
    if (is_checkpoint(path)) return describe_checkpoint(path, list);
    if (fs::exists(path + "/config.yaml") || fs::is_directory(path + "/checkpoints")) return describe_run(path);
    if (holds_checkpoints(path)) return describe_checkpoints(path);
    if (const auto j = kept_tokens(path)) return *j;
    if (auto j = files_side_by_side(path)) return *j;
    if (fs::exists(path + "/config.json") || has_tensors(path)) return model_folder(path, list);
    if (is_prepared(path))
      return {{"kind", "folder of a run to come (ravine init)"},
              {"path", path},
              {"config", path + "/run.yaml"},
              {"to_use_it", fmt::format("ravine train --config {}", shell_word(path + "/run.yaml"))}};
    if (has_tokenizer(path)) {
      Json j{{"kind", "tokenizer"}, {"path", path}};
      add_tokenizer(j, path);
      return j;
    }
    if (auto j = describe_folder_kind(path)) return *j;
    if (const auto kind = foreign_kind(path)) return {{"kind", kind->what}, {"path", path}, {"to_use_it", kind->fix}};
    if (const auto runs = runs_in(path, true); !runs.empty())
      return describe_runs(path, runs);  // before data: logs of runs are text files
    if (auto j = describe_data(path, data)) return *j;
    if (const auto j = folder_of_token_files(path)) return *j;
    unknown_kind(path, true);
  }
  if (file.ends_with(".safetensors") || file.ends_with(".bin") || file.ends_with(".pt") || file.ends_with(".pth")) {
    Json j{{"kind", file.ends_with(".safetensors") ? "safetensors" : "torch file"}, {"path", path}};
    if (const auto part = describe_torch_part(path)) {
      j.update(*part);
      if (part->contains("tensors")) return j;
    }
    add_tensors(j, path, true);
    const std::string made = file.ends_with(".safetensors") ? kind_of_tensors(SafetensorsReader(path).metadata()) : "";
    if (!made.empty()) j["kind"] = made;
    bool batch_file = false;
    if (file.ends_with(".safetensors"))
      if (const auto batches = describe_batches(path, data)) j.update(*batches), batch_file = batches->contains("rows");
    if (!made.empty() || batch_file) j["elements"] = j["parameters"], j.erase("parameters");
    return j;
  }
  if (file.starts_with("tokenizer.") || file.find(".model") != std::string::npos) {
    Json j{{"kind", "tokenizer"}, {"path", path}};
    add_tokenizer(j, path);
    return j;
  }
  if (file.ends_with(".json")) return describe_json_file(path);
  unknown_kind(path, false);
}

std::string shown(const std::string& key, const Json& value) {
  if (key == "bytes" && value.is_number()) return fmt::format("{} ({})", value.dump(), human_bytes(value.get<double>()));
  if (key == "parameters" && value.is_number()) return fmt::format("{} ({})", value.dump(), human_count(value.get<double>()));
  if (value.is_string()) return key == "to_use_it" ? escaped(value.get<std::string>()) : printable(value.get<std::string>());
  return escaped(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void print_text(const Json& j) {
  for (const auto& [key, value] : j.items()) {
    if (key == "tensor_list") {
      fmt::print("\n");
      for (const Json& t : value) {
        const std::string dtype = t["dtype"], name = t["name"];
        fmt::print("{:<5} {:<24} {}\n", escaped(dtype), escaped(t["shape"].dump()), printable(name));
      }
    } else if (key == "lengths") {
      print_lengths(value);
    } else if (key == "samples") {
      print_samples(value);
    } else if (key == "tags") {
      fmt::print("tags:\n");
      for (const auto& [tag, v] : value.items())
        fmt::print("  {:<26} steps {} to {} ({}), last {}\n", printable(tag), v["first_step"].dump(), v["last_step"].dump(),
                   counted(v["points"].get<int64_t>(), "point"),
                   v["last"].is_string() ? v["last"].get<std::string>() : v["last"].dump());
    } else if (value.is_object()) {
      fmt::print("{}:\n", key);
      for (const auto& [inner, v] : value.items()) fmt::print("  {:<26} {}\n", printable(inner), shown(inner, v));
    } else {
      fmt::print("{:<18} {}\n", key, shown(key, value));
    }
  }
}

int run_info(InfoFlags& flags, Config&) {
  while (flags.path.size() > 1 && flags.path.back() == '/') flags.path.pop_back();
  if (is_prepared(flags.path)) {
    try {
      flags.path = resolve_run(flags.path);
    } catch (const UserError&) {  // no run yet, or run.yaml is damaged: the folder is described all the same
    }
  }
  const Json j = describe(flags.path, flags.tensors, flags.data);
  if (flags.json)
    fmt::print("{}\n", j.dump(-1, ' ', ::isatty(STDOUT_FILENO) == 1, Json::error_handler_t::replace));
  else
    print_text(j);
  return 0;
}

}  // namespace

Command info_command() {
  return command<InfoFlags>({.name = "info",
                             .summary = "describe a model, checkpoint, run, tokenizer, data or safetensors file",
                             .example = "ravine info runs/demo/model --tensors",
                             .sections = {},
                             .alone = true},
                            "Machine", run_info);
}

}  // namespace ravine

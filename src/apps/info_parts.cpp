#include "apps/info_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "base/json_fields.h"
#include "base/program_name.h"
#include "base/shell_word.h"
#include "files/compressed.h"
#include "files/torch_file.h"
#include "io/checkpoint_health.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

struct NamedPart {
  const char *name, *kind;  // a regular expression; the kind
  const char* of;           // the checkpoint: "." is the folder of the file, "../.." its grandparent
  bool weights = false;     // it holds named tensors alone, or holds them under a known key
};

// Files of torch.save.
const NamedPart kTorchParts[] = {
    {R"(optimizer\.(pt|bin))", "states of an optimizer, in a checkpoint of the Trainer", "."},
    {R"(scheduler\.pt)", "state of a learning-rate schedule, in a checkpoint of the Trainer", "."},
    {R"(scaler\.pt)", "state of a loss scale, in a checkpoint of the Trainer", "."},
    {R"(rng_state(_\d+)?\.pth)", "random states of a rank, in a checkpoint of the Trainer", "."},
    {R"(training_args\.bin)", "arguments of a run of the Trainer", "."},
    {R"(distrib_optim\.pt)", "states of Megatron's distributed optimizer", "../.."},
    {R"(model_optim_rng\.pt|model_rng\.pt)", "a rank of a Megatron checkpoint", "../..", true},
    {R"((bf16_|fp16_)?zero_pp_rank_\d+_mp_rank_\d+_optim_states\.pt)", "states of a DeepSpeed optimizer, a part of ZeRO",
     "../.."},
    {R"((zero_pp_rank_\d+_)?mp_rank_\d+_model_states\.pt)", "weights and counters of a DeepSpeed checkpoint", "../..", true},
};

std::string above(const std::string& path, std::string_view suffix) {
  fs::path folder = fs::absolute(path).lexically_normal().parent_path();
  if (suffix == "../..") folder = folder.parent_path();
  return folder.string();
}

bool has_name(const std::string& path, const char* form) {
  return std::regex_match(fs::path(path).filename().string(), std::regex(form));
}

constexpr size_t kMostFields = 40;

// A plain value for people; what it is, of any other.
Json shown(const Pickle& p, Pickle::Ref v) {
  switch (p.kind(v)) {
    case Pickle::Kind::boolean:
      return *p.boolean(v);
    case Pickle::Kind::integer:
      return *p.integer(v);
    case Pickle::Kind::real:
      return *p.real(v);
    case Pickle::Kind::text:
      return printable(p.text(v)->substr(0, 200));
    case Pickle::Kind::list:
    case Pickle::Kind::tuple:
    case Pickle::Kind::dict:
      return fmt::format("{} of {}", p.describe(v), p.items(v).size() / (p.kind(v) == Pickle::Kind::dict ? 2 : 1));
    default:
      return p.describe(v);
  }
}

// Fields of the top level of a file of torch.save, and the tensors below.
Json torch_tree(const std::string& path) {
  const TorchFile f(path);
  const Pickle& p = f.pickle();
  Json j{{"kind", "torch file"}, {"path", path}, {"bytes", f.file_size()}};
  if (const auto* fields = p.fields(p.root())) {
    Json values = Json::object();
    for (size_t i = 0; i + 1 < fields->size() && values.size() < kMostFields; i += 2) {
      const auto key = p.text((*fields)[i]);
      append_field(values, key ? printable(key->substr(0, 200)) : shown(p, (*fields)[i]).dump(), shown(p, (*fields)[i + 1]));
    }
    j["fields"] = fields->size() / 2;
    j["holds"] = values;
  } else {
    j["holds"] = p.describe(p.root());
  }
  int64_t tensors = 0, elements = 0;
  std::set<Pickle::Ref> seen;
  std::vector<Pickle::Ref> open{p.root()};
  while (!open.empty()) {
    const Pickle::Ref v = open.back();
    open.pop_back();
    if (!seen.insert(v).second) continue;
    if (f.is_tensor(v)) {
      ++tensors;
      elements += f.tensor(v, "of the file").shape.count();
      continue;
    }
    for (const Pickle::Ref item : p.items(v)) open.push_back(item);
  }
  j["tensors"] = tensors;
  if (tensors > 0) j["elements"] = elements;
  return j;
}

Json json_part(const std::string& kind, const std::string& path, const Json& content) {
  Json j{{"kind", kind}, {"path", path}}, plain = Json::object();
  for (const auto& [key, value] : content.items())
    if (value.is_primitive()) append_field(plain, key, value);
  j["values"] = plain;
  return j;
}

bool holds(const Json& content, std::initializer_list<const char*> keys) {
  return content.is_object() && std::all_of(keys.begin(), keys.end(), [&](const char* key) { return content.contains(key); });
}

std::string show_command(const std::string& folder) { return fmt::format("{} info {}", program_word(), shell_word(folder)); }

Json verdicts(const std::string& path, const Json& content) {
  int64_t healthy = 0, all = 0;
  for (const Json& one : content)
    if (holds(one, {"is_health", "ckpt_name"})) ++all, healthy += one["is_health"] == 0;
  return Json{{"kind", "verdicts on checkpoints (health monitor)"},
              {"path", path},
              {"checkpoints", all},
              {"healthy", healthy},
              {"to_use_it", "a run with health.embedding_norm goes on from the newest that it calls healthy"}};
}

bool configures_deepspeed(const Json& content) {
  for (const char* key :
       {"zero_optimization", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size"})
    if (content.is_object() && content.contains(key) && !content.contains("max_steps") && !content.contains("model_type"))
      return true;
  return false;
}

constexpr int64_t kMostJson = int64_t{16} << 20;  // bytes; larger ones are data

std::optional<Json> describe_json_part(const std::string& path) {
  const std::string file = fs::path(path).filename().string(), folder = above(path, ".");
  Json content;
  try {
    content = read_json(path, kMostJson);
  } catch (const UserError&) {  // data, or what another reader says more about
    return {};
  }
  if (file == kHealthFile && content.is_array()) return verdicts(path, content);
  if (holds(content, {"last_epoch", "last_step", "last_ckpt_file"})) {
    Json j = json_part("note about the newest checkpoint of a rank (MindFormers)", path, content);
    j["to_use_it"] = show_command(above(path, "../.."));
    return j;
  }
  if (holds(content, {"global_step", "log_history"})) {
    Json j = json_part("state of a run of the Trainer", path, content);
    if (content["log_history"].is_array()) j["log_entries"] = content["log_history"].size();
    j["to_use_it"] = show_command(folder);
    return j;
  }
  if (file == "training_args.json" && holds(content, {"output_dir"})) {
    Json j = json_part("arguments of a run of the Trainer", path, content);
    j["to_use_it"] = show_command(folder);
    return j;
  }
  if (file == "param_name_map.json") {
    Json j{{"kind", "names of parameters and of the files that hold them"}, {"path", path}, {"names", content.size()}};
    j["to_use_it"] = show_command(folder);
    return j;
  }
  if (content.is_object() && (file.ends_with("_results.json") || file == "results.json")) {
    Json j = json_part("results of a run", path, content);
    if (j["values"].empty()) j["values"] = content;
    return j;
  }
  if (configures_deepspeed(content)) {
    Json j = json_part("settings of DeepSpeed", path, content);
    if (const auto zero = content.find("zero_optimization");
        zero != content.end() && zero->is_object() && zero->contains("stage"))
      j["zero"] = (*zero)["stage"];
    j["to_use_it"] = fmt::format("{} trainer --deepspeed {} ..", program_word(), shell_word(path));
    return j;
  }
  return {};
}

// Trackers: texts of one word.
std::optional<Json> describe_tracker(const std::string& path) {
  const std::string file = fs::path(path).filename().string(), folder = above(path, ".");
  const bool megatron = file == "latest_checkpointed_iteration.txt";
  std::error_code error;
  if (!megatron && (file != "latest" || !fs::is_regular_file(path, error))) return {};
  std::string word = read_whole(path, 4096);
  word = word.substr(0, word.find_first_of(" \t\r\n"));
  const std::string of = megatron && word != "release" ? "iteration" : "folder";
  Json j{{"kind", fmt::format("tracker file of {}: the newest checkpoint beside it", megatron ? "Megatron" : "DeepSpeed")},
         {"path", path},
         {of, printable(word)},
         {"to_use_it", show_command(folder)}};
  return j;
}

}  // namespace

std::optional<Json> describe_torch_part(const std::string& path) {
  for (const NamedPart& part : kTorchParts) {
    if (!has_name(path, part.name)) continue;
    Json j = part.weights ? Json::object() : torch_tree(path);
    j["kind"] = part.kind;
    j["to_use_it"] = show_command(above(path, part.of));
    return j;
  }
  return {};
}

std::optional<Json> describe_part(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  if (auto tracker = describe_tracker(path)) return tracker;
  return path.ends_with(".json") ? describe_json_part(path) : std::nullopt;
}

}  // namespace ravine

// The parts that ModelLink's programs which run a model share: their flags of training, the model and its ranks.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "dialects/megatron_held.h"
#include "dialects/megatron_programs.h"
#include "dialects/megatron_run.h"

namespace ravine {

using enum KeyType;
namespace fs = std::filesystem;

namespace {

// True for a flag that says the same to programs which do not train: of tokenizers, and of messages between ranks.
bool speaks_to_all(const std::string& key) {
  for (const char* begin : {"--tokenizer-", "--merge-file", "--distributed-", "--local", "--use-ring", "--no-overlap-p2p",
                            "--no-scatter", "--no-async", "--foldx-mode", "--fold-mode"})
    if (key.starts_with(begin)) return true;
  return false;
}

}  // namespace

DialectTable megatron_running_table(const DialectTable& own) {
  DialectTable table = own;
  const DialectTable training =
      joined({megatron_training_rows(MegatronAge::core), megatron_layout_rows(), megatron_files_rows()});
  for (DialectKey& row : megatron_training_table(MegatronAge::core)) {
    if (std::any_of(own.begin(), own.end(), [&](const DialectKey& r) { return r.key == row.key; })) continue;
    if (row.status == KeyStatus::used) {
      const bool shape = row.option == "model.config";
      row.status = KeyStatus::inert;
      row.option.clear(), row.copied = false;
      row.reason = shape ? kModelSaysIt : "only training has a use of it";
    } else if (row.status == KeyStatus::inert && !speaks_to_all(row.key) &&
               std::any_of(training.begin(), training.end(), [&](const DialectKey& r) { return r.key == row.key; })) {
      row.reason = "only training has a use of it";
    }
    table.push_back(std::move(row));
  }
  return table;
}

namespace {

// Returns the type in which the program computes answers: of --fp16 and --bf16, else of DeepSpeed's engine, whose
// default is f16; "" if nothing says it.
std::string compute_of(Translation& t, const MegatronJob& job) {
  const char *deepspeed = "--deepspeed", *config = "--deepspeed_config";
  if (!t.is_on(deepspeed) && t.has(config)) t.becomes(config, KeyStatus::inert, "--deepspeed is not given");
  if (t.is_on("--fp16") || t.is_on("--bf16")) {
    for (const char* key : {deepspeed, config})
      if (t.has(key)) t.becomes(key, KeyStatus::inert, "--fp16 and --bf16 say the type of the arithmetic");
    return t.is_on("--fp16") ? "f16" : "bf16";
  }
  if (!t.is_on(deepspeed)) return "";
  if (!t.has(config)) return "f16";
  const Json settings = megatron_deepspeed(t, job);
  for (const auto& [part, type] : {std::pair{"fp16", "f16"}, {"bf16", "bf16"}})
    if (const auto of = settings.find(part);
        of != settings.end() && of->is_object() && of->value("enabled", Json()) == Json(true))
      return type;
  return "f32";
}

}  // namespace

void add_megatron_running(Translation& t, const MegatronJob& job, bool ranks) {
  std::vector<std::string>& c = t.command;
  for (const auto& [key, option] :
       {std::pair{"--tensor-model-parallel-size", "parallel.tensor"}, {"--pipeline-model-parallel-size", "parallel.pipeline"}})
    if (ranks && t.has(key)) c.push_back(fmt::format("{}={}", option, t.whole(key)));
  if (ranks && t.has("--distributed-timeout-minutes")) c.push_back(fmt::format("parallel.patience={}", megatron_patience(t)));
  if (const std::string type = compute_of(t, job); !type.empty()) c.push_back("precision.compute=" + type);
}

namespace {

// Returns the JSON of a file; null if it is missing or damaged, which is reported when the file is opened.
Json read_json_or_null(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return Json();
  try {
    return read_json(file.string());
  } catch (const std::exception&) {
    return Json();
  }
}

bool is_given(const Translation& t, const std::string& key) {
  const std::vector<std::string> given = t.given();
  return t.has(key) && std::find(given.begin(), given.end(), key) != given.end();
}

// Appends the tokenizer of the flags, by which Megatron's programs encode, unless the flags name the model's folder.
void add_megatron_tokenizer(Translation& t) {
  const std::string flag = megatron_tokenizer_flag(t), path = megatron_tokenizer(t);
  for (const char* key : {"--tokenizer-name-or-path", "--tokenizer-model", "--vocab-file"})
    if (t.has(key) && key != flag) t.becomes(key, KeyStatus::inert, flag + " names the tokenizer");
  std::error_code error;
  const fs::path folder = t.text("--load"), named = flag == "--tokenizer-model" ? fs::path(path).parent_path() : fs::path(path);
  if (path.empty() || !fs::is_directory(folder, error)) return;
  if (fs::equivalent(folder, named, error) || fs::equivalent(folder, path, error))
    return t.becomes(flag, KeyStatus::inert, "it is the model's own folder");
  t.command.push_back("model.tokenizer=" + path);
  t.becomes(flag, KeyStatus::used, "model.tokenizer");
}

bool differ(const Json& own, const Json& declared) {
  return own.is_number() && declared.is_number() && own.get<double>() != declared.get<double>();
}

}  // namespace

void hold_megatron_adapter(Translation& t, const MegatronJob& job) {
  if (!t.has("--lora-load")) return;
  std::string where;
  fs::path file = fs::path(t.text("--lora-load")) / "adapter_config.json";
  Json config = read_json_or_null(file);
  if (config.is_null()) config = read_json_or_null(file = fs::path(t.text("--lora-load")) / "adapter" / "adapter_config.json");
  where = file.string();
  if (!config.is_object() && job.network) {
    const Json stored = job.network(t.text("--lora-load"));
    config = stored.value("arguments", Json()), where = stored.value("where", "");
  }
  if (!config.is_object()) return;
  for (const auto& [key, name] : {std::pair{"--lora-r", "r"}, {"--lora-r", "lora_r"}, {"--lora-alpha", "lora_alpha"}})
    if (const auto own = config.find(name); own != config.end() && is_given(t, key) && differ(*own, t.value(key)))
      t.refuse(key, fmt::format("{} is {}, and {} of {} is {}", key, t.value(key).dump(), name, where, own->dump()),
               "an adapter is merged as it was trained", fmt::format("write {} {}, or leave it out", key, own->dump()));
}

void add_megatron_model(Translation& t, const MegatronJob& job) {
  if (!t.has("--load")) return t.refuse("--load", "--load is not given", "a model has to answer", "name a Hugging Face folder");
  t.command.insert(t.command.end(), {"--model", t.text("--load")});
  if (t.has("--lora-load")) t.command.insert(t.command.end(), {"--adapter", t.text("--lora-load")});
  hold_megatron_adapter(t, job);
  hold_megatron_network(t, job, t.text("--load"), LoadedAs::model);
  add_megatron_tokenizer(t);
}

namespace {

// Returns the tokenizer_config.json that the command reads; null if there is none.
Json tokenizer_settings(const Translation& t) {
  for (const std::string& folder : {megatron_tokenizer(t), t.text("--load")})
    if (const Json j = read_json_or_null(fs::path(folder) / "tokenizer_config.json"); j.is_object()) return j;
  return Json();
}

// Returns the token in a setting, which is a text or an object; "" if there is none.
std::string token_of(const Json& settings, const std::string& name) {
  const auto it = settings.is_object() ? settings.find(name) : settings.end();
  if (!settings.is_object() || it == settings.end()) return "";
  if (it->is_object() && it->contains("content") && (*it)["content"].is_string()) return (*it)["content"].get<std::string>();
  return it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

bool tokenizer_has_chat_template(const Translation& t) {
  const std::string named = megatron_tokenizer(t), folder = named.empty() ? t.text("--load") : named;
  std::error_code error;
  const Json settings = read_json_or_null(fs::path(folder) / "tokenizer_config.json");
  return fs::exists(fs::path(folder) / "chat_template.jinja", error) ||
         (settings.is_object() && settings.contains("chat_template") && !settings["chat_template"].is_null());
}

std::vector<std::string> hold_tokenizer_words(Translation& t, bool ends) {
  const std::string key = "--tokenizer-kwargs";
  std::vector<std::string> words;
  if (t.has(key))
    for (const Json& one : t.value(key)) words.push_back(one.get<std::string>());
  if (words.size() % 2 != 0)
    t.refuse(key, fmt::format("{} has {} words", key, words.size()), "names and values come in pairs", "correct it");
  const Json settings = tokenizer_settings(t);
  std::vector<std::string> more;
  bool acts = false;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const std::string &name = words[i], &declared = words[i + 1], own = token_of(settings, name);
    if (own == declared || name == "pad_token" || name == "padding_side") continue;  // no token sees padding
    if (name == "eos_token" && own.empty() && ends)
      more.push_back(declared), acts = true;
    else
      t.refuse(key, fmt::format("{} {} {}", key, name, declared),
               own.empty() ? std::string("arguments of a Python class have no counterpart")
                           : fmt::format("tokenizer_config.json has '{}' there", own),
               fmt::format("write \"{}\": \"{}\" into tokenizer_config.json, or leave it out", name, declared));
  }
  if (t.has(key))
    t.becomes(key, acts ? KeyStatus::used : KeyStatus::inert,
              acts ? "--stop-tokens" : "the folder of the tokenizer says the same");
  return more;
}

DialectTable megatron_running_rows() {
  return {
      renamed("--load", text, "--model"),
      renamed("--lora-load", text, "--adapter"),
      renamed("--max-new-tokens", whole, "--max-new-tokens"),
      renamed("--tensor-model-parallel-size", whole, "parallel.tensor"),
      renamed("--pipeline-model-parallel-size", whole, "parallel.pipeline"),
      used("--fp16", on, "precision.compute"),
      used("--bf16", on, "precision.compute"),
      inert("--row-col-parallel-linear-bias", on, "the config.json of the model says it"),
      inert("--tokenizer-type", text, "the files of the tokenizer say it"),
      renamed("--tokenizer-name-or-path", text, "model.tokenizer"),
      renamed("--tokenizer-model", text, "model.tokenizer"),
      used("--vocab-file", text, "model.tokenizer"),
      used("--deepspeed", on, "precision.compute"),
      used("--deepspeed_config", text, "precision.compute"),
      used("--distributed-timeout-minutes", whole, "parallel.patience"),
      used("--tokenizer-kwargs", texts, "refused where the tokenizer_config.json of the folder says another token"),
      inert("--use-rotary-position-embedding", on, "the config.json of the model says it"),
  };
}

}  // namespace ravine

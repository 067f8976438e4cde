// Reads the file and the flags of run_mindformer.py into one flat list of keys.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "config/option.h"
#include "config/yaml.h"
#include "config/yaml_json.h"
#include "dialects/launch_script.h"
#include "dialects/mindformers.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

constexpr int kNesting = 10;  // most levels of a file, as in MindFormers
constexpr const char* kLineOf = "mindformers";

// A flag and the key that it sets; "" if none.
struct LineFlag {
  const char* name;
  const char* key;
  KeyType type;
  bool list = false;
};
constexpr LineFlag kLineFlags[] = {
    {"--config", "", KeyType::text},
    {"--mode", "context.mode", KeyType::whole},
    {"--device_id", "context.device_id", KeyType::whole},
    {"--device_target", "context.device_target", KeyType::text},
    {"--run_mode", "run_mode", KeyType::text},
    {"--do_eval", "do_eval", KeyType::boolean},
    {"--train_dataset_dir", "train_dataset.data_loader.dataset_dir", KeyType::text},
    {"--eval_dataset_dir", "eval_dataset.data_loader.dataset_dir", KeyType::text},
    {"--predict_data", "input_data", KeyType::text, true},
    {"--modal_type", "modal_type", KeyType::text, true},
    {"--predict_batch_size", "predict_batch_size", KeyType::whole},
    {"--adapter_id", "adapter_id", KeyType::text, true},
    {"--load_checkpoint", "load_checkpoint", KeyType::text},
    {"--src_strategy_path_or_dir", "src_strategy_path_or_dir", KeyType::text},
    {"--auto_trans_ckpt", "auto_trans_ckpt", KeyType::boolean},
    {"--transform_process_num", "transform_process_num", KeyType::whole},
    {"--only_save_strategy", "only_save_strategy", KeyType::boolean},
    {"--resume_training", "resume_training", KeyType::any},
    {"--strategy_load_checkpoint", "parallel.strategy_ckpt_load_file", KeyType::text},
    {"--remote_save_url", "remote_save_url", KeyType::text},
    {"--seed", "seed", KeyType::whole},
    {"--use_parallel", "use_parallel", KeyType::boolean},
    {"--profile", "profile", KeyType::boolean},
    {"--options", "", KeyType::text, true},
    {"--epochs", "runner_config.epochs", KeyType::whole},
    {"--batch_size", "runner_config.batch_size", KeyType::whole},
    {"--gradient_accumulation_steps", "runner_config.gradient_accumulation_steps", KeyType::whole},
    {"--sink_mode", "runner_config.sink_mode", KeyType::boolean},
    {"--num_samples", "train_dataset.data_loader.num_samples", KeyType::whole},
    {"--output_dir", "output_dir", KeyType::text},
    {"--register_path", "register_path", KeyType::text},
    {"--do_sample", "model.model_config.do_sample", KeyType::boolean},
    {"--trust_remote_code", "trust_remote_code", KeyType::boolean},
};

// Sections that a dotted flag may set even if the file does not have them.
constexpr const char* kSections[] = {
    "runner_config", "context",     "parallel",      "parallel_config", "recompute_config",   "swap_config",
    "moe_config",    "trainer",     "model",         "runner_wrapper",  "optimizer",          "lr_schedule",
    "metric",        "callbacks",   "train_dataset", "eval_dataset",    "train_dataset_task", "eval_dataset_task",
    "processor",     "tensorboard", "monitor_config"};

// MindFormers' page of further features has `callback` for `callbacks`. Its items are appended to `callbacks`.
constexpr std::string_view kCallback = "callback", kCallbacks = "callbacks";
std::string proper(const std::string& key) {
  const bool short_name = key == kCallback || key.starts_with("callback[") || key.starts_with("callback.");
  return short_name ? std::string(kCallbacks) + key.substr(kCallback.size()) : key;
}

// The keys in the order of the file, each once.
class Keys {
 public:
  void set(GivenKey given) {
    given.key = proper(given.key);
    if (given.value.is_object() && !given.value.empty()) {
      std::erase_if(keys_, [&](const GivenKey& k) { return k.key == given.key || k.key.starts_with(given.key + "."); });
      for (const auto& [name, value] : given.value.items()) set({given.key + "." + name, value, given.source});
      return;
    }
    // A value replaces the key and all keys below it.
    const std::string below = given.key + ".", items = given.key + "[";
    std::erase_if(keys_, [&](const GivenKey& k) { return k.key.starts_with(below) || k.key.starts_with(items); });
    const auto it = std::find_if(keys_.begin(), keys_.end(), [&](const GivenKey& k) { return k.key == given.key; });
    if (it == keys_.end())
      keys_.push_back(std::move(given));
    else
      *it = std::move(given);
  }
  // Sets a key. A map and a list of maps are flattened.
  void set(const std::string& name, const YamlNode& value, const std::string& source) {
    const std::string key = proper(name);
    const bool maps = value.kind == YamlNode::Kind::list && !value.items.empty() &&
                      std::all_of(value.items.begin(), value.items.end(),
                                  [](const YamlNode::Ptr& i) { return i->kind == YamlNode::Kind::map; });
    if (value.kind == YamlNode::Kind::map && !value.fields.empty()) {
      std::erase_if(keys_, [&](const GivenKey& k) { return k.key == key; });
      for (const auto& [part, field] : value.fields) set(key + "." + part, *field, location(source, *field));
    } else if (maps) {
      const std::string items = key + "[";
      std::erase_if(keys_, [&](const GivenKey& k) { return k.key == key || k.key.starts_with(items); });
      for (size_t i = 0; i < value.items.size(); ++i)
        for (const auto& [part, field] : value.items[i]->fields)
          set(fmt::format("{}[{}].{}", key, i, part), *field, location(source, *field));
    } else {
      set(GivenKey{key, json_of(value), source});
    }
  }
  // Appends the items of a list of maps to the items that `key` has.
  void append(const std::string& key, const YamlNode& list, const std::string& source) {
    std::set<std::string> there;
    for (const GivenKey& k : keys_)
      if (k.key.starts_with(key + "[")) there.insert(k.key.substr(0, k.key.find(']')));
    for (size_t i = 0; i < list.items.size(); ++i)
      set(fmt::format("{}[{}]", key, there.size() + i), *list.items[i], location(source, *list.items[i]));
  }
  bool has_section(const std::string& section) const {
    const std::string prefix = section + ".", items = section + "[";
    return std::any_of(keys_.begin(), keys_.end(), [&](const GivenKey& k) {
      return k.key.starts_with(prefix) || k.key.starts_with(items) || k.key == section;
    });
  }
  std::vector<GivenKey> take() { return std::move(keys_); }

 private:
  // Returns FILE:LINE of a value in a file, and `source` for a value of the command line.
  static std::string location(const std::string& source, const YamlNode& value) {
    const size_t colon = source.rfind(':');
    return value.line == 0 || colon == std::string::npos ? source : fmt::format("{}:{}", source.substr(0, colon), value.line);
  }
  std::vector<GivenKey> keys_;
};

int depth_of(const YamlNode& node) {
  int deepest = 0;
  for (const auto& [name, field] : node.fields) deepest = std::max(deepest, depth_of(*field));
  for (const auto& item : node.items) deepest = std::max(deepest, depth_of(*item));
  return node.scalar() ? 0 : deepest + 1;
}

// Reads a file over the files in its base_config.
void read_file(const std::string& path, Keys& keys, std::vector<std::string>& within) {
  if (std::find(within.begin(), within.end(), path) != within.end())
    throw UserError("base_config goes in a circle", path, "a file cannot come before itself",
                    "remove the key from one of them");
  within.push_back(path);
  const YamlNode::Ptr root = read_yaml(path);
  if (root->kind != YamlNode::Kind::map)
    throw UserError("no configuration", path, "it has to be a map of keys", "name the YAML of the job");
  if (const int depth = depth_of(*root); depth > kNesting)
    throw UserError(fmt::format("nesting {} deep", depth), path, fmt::format("MindFormers reads {} levels", kNesting),
                    "take the inner levels out");
  if (const YamlNode* base = root->find("base_config")) {
    std::vector<std::string> files;
    if (base->kind == YamlNode::Kind::text) files = {base->text};
    for (const auto& item : base->items) files.push_back(item->text);
    for (const std::string& file : files) {
      const fs::path base_file = fs::path(file).is_absolute() ? fs::path(file) : fs::path(path).parent_path() / file;
      read_file(base_file.string(), keys, within);
    }
  }
  for (const auto& [name, value] : root->fields)
    if (name != "base_config" && name != kCallback) keys.set(name, *value, fmt::format("{}:{}", path, value->line));
  if (const YamlNode* more = root->find(std::string(kCallback))) {
    const bool maps = std::all_of(more->items.begin(), more->items.end(),
                                  [](const YamlNode::Ptr& item) { return item->kind == YamlNode::Kind::map; });
    const std::string source = fmt::format("{}:{}", path, more->line);
    if (maps && !more->items.empty())
      keys.append(std::string(kCallbacks), *more, source);
    else
      keys.set(std::string(kCallbacks), *more, source);
  }
  within.pop_back();
}

std::string small_letters(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

bool is_flag_word(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

[[noreturn]] void wrong_value(const std::string& flag, const std::string& value, const std::string& where, const char* rule) {
  throw UserError(fmt::format("{} is '{}'", flag, value.substr(0, 80)), where, rule, "correct the value");
}

Json value_of_flag(const LineFlag& flag, const std::string& text, const std::string& where) {
  const std::string small = small_letters(text);
  switch (flag.type) {
    case KeyType::boolean:
      if (small != "true" && small != "false") wrong_value(flag.name, text, where, "it is true or false");
      return small == "true";
    case KeyType::whole: {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size()) wrong_value(flag.name, text, where, "it is a whole number");
      return number;
    }
    case KeyType::any:  // --resume_training
      if (small == "true" || small == "false") return small == "true";
      return text;
    default:
      return text;
  }
}

// Returns the value of a dotted flag, as in run_mindformer.py: a whole number (2.0 too), a number, True or False, JSON,
// or a text.
Json value_of_dotted(const std::string& text) {
  const Json plain = json_of(resolve_scalar(text));
  if (plain.is_number_float() && plain.get<double>() == std::floor(plain.get<double>()) &&
      text.find_first_of("eE") == std::string::npos && std::abs(plain.get<double>()) < 1e15)
    return static_cast<int64_t>(plain.get<double>());
  if (plain.is_number() || plain.is_boolean()) return plain;
  try {
    return parse_json(text, kLineOf);
  } catch (const UserError&) {  // invalid or too deep JSON is a text
    return text;
  }
}

// Returns the value in --options. A text in brackets or with commas is a list.
Json value_of_option(const std::string& text) {
  const std::string inner =
      text.size() > 1 && (text.front() == '[' || text.front() == '(') ? text.substr(1, text.size() - 2) : text;
  if (inner == text && text.find(',') == std::string::npos) return value_of_dotted(text);
  Json list = Json::array();
  for (const std::string& item : split(inner, ',')) list.push_back(value_of_dotted(item));
  return list;
}

const LineFlag* flag_of(const std::string& name, const std::string& where) {
  std::vector<const LineFlag*> longer;
  for (const LineFlag& f : kLineFlags) {
    if (name == f.name) return &f;
    if (std::string_view(f.name).starts_with(name)) longer.push_back(&f);
  }
  if (longer.size() > 1)
    throw UserError(fmt::format("{} may be several flags", name), where,
                    fmt::format("it begins {} and {}", longer[0]->name, longer[1]->name), "write it whole");
  return longer.empty() ? nullptr : longer[0];
}

// The parsed flags: known flags, --options, and dotted flags, whose names are keys.
struct LineFlags {
  std::string config;
  std::vector<GivenKey> known, options, dotted;
};

LineFlags read_flags_of(const std::vector<PlacedWord>& words) {
  LineFlags out;
  for (size_t at = 0; at < words.size();) {
    const PlacedWord& word = words[at++];
    if (!is_flag_word(word.text))
      throw UserError(fmt::format("'{}' belongs to no flag", word.text.substr(0, 80)), word.source,
                      fmt::format("{} takes flags and their values", kLineOf), "write the flag before it, or leave it out");
    const size_t equals = word.text.find('=');
    const std::string name = word.text.substr(0, equals);
    const LineFlag* flag = flag_of(name, word.source);
    std::vector<std::string> values;
    if (equals != std::string::npos)
      values.push_back(word.text.substr(equals + 1));
    else
      while (at < words.size() && !is_flag_word(words[at].text) && (values.empty() || (flag && flag->list)))
        values.push_back(words[at++].text);
    if (values.empty())
      throw UserError(name + " has no value", word.source, "it needs one", fmt::format("write {} VALUE", name));
    if (!flag) {
      out.dotted.push_back({name.substr(2), value_of_dotted(values[0]), word.source});
    } else if (std::string_view(flag->name) == "--config") {
      out.config = values[0];
    } else if (std::string_view(flag->name) == "--options") {
      for (const std::string& v : values) {
        const size_t sign = v.find('=');
        if (sign == std::string::npos)
          throw UserError(fmt::format("--options {}", v.substr(0, 80)), word.source, "an option is KEY=VALUE", "write it so");
        out.options.push_back({v.substr(0, sign), value_of_option(v.substr(sign + 1)), word.source});
      }
    } else {
      Json value = flag->list ? Json(values) : value_of_flag(*flag, values[0], word.source);
      out.known.push_back({flag->key, std::move(value), fmt::format("{}, {}", word.source, flag->name)});
    }
  }
  return out;
}

std::string section_of(const std::string& key) { return key.substr(0, key.find_first_of(".[")); }

}  // namespace

std::vector<GivenKey> mindformers_keys(const YamlNode& document, const std::string& name) {
  Keys keys;
  for (const auto& [key, value] : document.fields) keys.set(key, *value, fmt::format("{}:{}", name, value->line));
  return keys.take();
}

MindFormersLine read_mindformers_line(const std::vector<PlacedWord>& words) {
  const LineFlags flags = read_flags_of(words);
  if (flags.config.empty())
    throw UserError("no configuration", words.empty() ? "command line" : words[0].source, "--config names the YAML of the job",
                    "write ravine mindformers --config FILE.yaml");
  MindFormersLine line{.config = flags.config, .given = {}};
  Keys keys;
  std::vector<std::string> within;
  read_file(flags.config, keys, within);
  for (const GivenKey& given : flags.known) {
    keys.set(given);
    if (given.key == "train_dataset.data_loader.num_samples" && keys.has_section("eval_dataset"))
      keys.set({"eval_dataset.data_loader.num_samples", given.value, given.source});
  }
  for (const std::vector<GivenKey>* list : {&flags.options, &flags.dotted})
    for (const GivenKey& given : *list) {
      const std::string section = section_of(proper(given.key));
      const bool known = std::find(std::begin(kSections), std::end(kSections), section) != std::end(kSections);
      if (section != given.key && !known && !keys.has_section(section))
        throw UserError(fmt::format("{} is not a key of the configuration", section), given.source,
                        fmt::format("--{} sets what lies below it", given.key),
                        did_you_mean(section, {std::begin(kSections), std::end(kSections)}, "leave it out"));
      keys.set(given);
    }
  line.given = keys.take();
  return line;
}

MindFormersLaunch read_msrun_words(const std::vector<PlacedWord>& words) {
  const auto wrong = [&](const PlacedWord& at, const std::string& what, const char* rule) {
    throw UserError(what, at.source, rule, "write msrun_launcher.sh \"run_mindformer.py --config FILE.yaml ..\" WORKER_NUM");
  };
  require(!words.empty(), "msrun_launcher.sh: no words");
  if (words.size() != 1 && words.size() != 2 && words.size() != 6 && words.size() != 9)
    wrong(words[0], fmt::format("{} words behind msrun_launcher.sh", words.size()), "it takes 1, 2, 6 or 9");
  MindFormersLaunch out;
  out.ranks = 8;  // default of msrun_launcher.sh
  if (words.size() > 1) {
    const std::string& text = words[1].text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.ranks);
    if (error != std::errc() || end != text.data() + text.size() || out.ranks < 1 || out.ranks > 1 << 15)
      wrong(words[1], fmt::format("worker_num is '{}'", text.substr(0, 40)), "it is the number of ranks");
  }
  for (const std::string& part : split(words[0].text, ' '))
    if (!part.empty() && part != "\n" && part != "\\") out.words.push_back({part, words[0].source});
  while (!out.words.empty() && !out.words[0].text.ends_with(".py")) out.words.erase(out.words.begin());
  if (out.words.empty()) wrong(words[0], "no program is launched", "its first word is a line that starts run_mindformer.py");
  out.words.erase(out.words.begin());
  return out;
}

MindFormersLaunch read_mindformers_script(const LaunchScript& script) {
  const std::string& path = script.name;
  std::vector<const ScriptCommand*> launchers;
  std::vector<ScriptWord> words_of;
  const auto is_msrun = [](const ScriptWord& word) { return word.text.ends_with("msrun_launcher.sh"); };
  for (const ScriptCommand& words : script.commands) {
    const auto found = std::find_if(words.begin(), words.end(), is_msrun);
    if (found != words.end()) launchers.push_back(&words), words_of.push_back(*found);
  }
  if (!launchers.empty()) {
    const size_t number = chosen_launch(script, std::vector<std::string>(launchers.size(), "msrun_launcher.sh"), words_of);
    const ScriptCommand* launcher = launchers[number];
    const auto at = static_cast<size_t>(std::find_if(launcher->begin(), launcher->end(), is_msrun) - launcher->begin());
    refuse_other_folder(script, *launcher);
    known_word(script, (*launcher)[at]);
    std::vector<PlacedWord> behind;
    for (size_t k = at + 1; k < launcher->size(); ++k) behind.push_back(known_word(script, (*launcher)[k]));
    if (behind.empty())
      throw UserError("msrun_launcher.sh starts nothing", fmt::format("{}:{}", path, (*launcher)[at].line),
                      "its first word is the line to run", "name the script of the job");
    return read_msrun_words(behind);
  }
  LaunchedProgram launched = launched_program(script);
  return {.words = std::move(launched.flags), .ranks = launched.ranks};
}

}  // namespace ravine

#include "checks/side.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/read_text.h"
#include "base/text.h"
#include "checks/job_facts.h"
#include "config/load.h"
#include "config/yaml.h"
#include "config/yaml_json.h"
#include "dialects/key_page.h"
#include "dialects/launch_script.h"
#include "dialects/megatron.h"
#include "dialects/mindformers.h"
#include "dialects/trainer.h"
#include "dialects/trainer_flags.h"
#include "runs/run_folder.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

// A file or folder of a side, by its content.
enum class Part : uint8_t { run, model, yaml, mindformers, text, arguments, deepspeed };

bool is_flag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

std::string flag_name(const std::string& word) { return word.substr(0, word.find('=')); }

std::string read_part(const std::string& path) { return read_text(path, kScriptBytes, "a config or a script"); }

const std::set<std::string>& megatron_flags() {
  static const std::set<std::string> all = [] {
    std::set<std::string> flags;
    for (const KeySection& section : megatron_key_sections())
      for (const DialectKey& row : section.rows) flags.insert(row.key);
    return flags;
  }();
  return all;
}

bool is_ravine_section(const std::string& key) {
  Config all;
  for (const Section& s : sections_of(all))
    if (s.name == key) return true;
  return false;
}

// Returns the part that a JSON object is.
Part part_of_json(const YamlNode& root, const std::string& path) {
  size_t arguments = 0;
  for (const auto& [key, value] : root.fields)
    if (find_trainer_flag(key)) ++arguments;
  static constexpr const char* kDeepSpeed[] = {"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu",
                                               "zero_allow_untested_optimizer", "gradient_clipping"};
  const auto deepspeed = [&](const char* key) { return root.find(key) != nullptr; };
  if (root.find("model_type")) return Part::model;
  const bool section = root.find("optimizer") && root.find("optimizer")->kind == YamlNode::Kind::map;
  if (section || (std::any_of(std::begin(kDeepSpeed), std::end(kDeepSpeed), deepspeed) && !root.find("output_dir")))
    return Part::deepspeed;
  if (arguments > 0) return Part::arguments;
  throw UserError(path + " is no config", "check config",
                  "a JSON file is a config.json, TrainingArguments or a DeepSpeed config", "name one of them");
}

Part part_of(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (is_run(path) && fs::exists(fs::path(path) / "config.yaml", error)) return Part::run;
    if (fs::exists(fs::path(path) / "config.json", error)) return Part::model;
    throw UserError(path + " is a folder without a config", "check config",
                    "a folder has config.yaml (a run) or config.json (a model)", "name the file of the training");
  }
  if (!fs::exists(path, error))
    throw UserError(path + " is not there", "check config", "a side is a file or a folder", "correct the path");
  const std::string text = read_part(path);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos)
    throw UserError(path + " is empty", "check config", "a side is a config", "name another file");
  if (text[first] == '{') return part_of_json(*load_yaml(text, path), path);
  const bool named = path.ends_with(".yaml") || path.ends_with(".yml");
  if (!named && (text.starts_with("#!") || path.ends_with(".sh") || text.compare(first, 2, "--") == 0)) return Part::text;
  YamlNode::Ptr root;
  try {
    root = load_yaml(text, path);
  } catch (const UserError&) {
    if (named) throw;
  }
  if (!root || root->kind != YamlNode::Kind::map) return Part::text;
  // `model` is a section of both programs.
  size_t ours = 0, theirs = 0;
  for (const auto& [key, value] : root->fields)
    if (key != "model") (is_ravine_section(key) ? ours : theirs) += 1;
  if (const YamlNode* model = root->find("model")) ++(model->find("model_config") || model->find("arch") ? theirs : ours);
  return theirs > ours ? Part::mindformers : Part::yaml;
}

// Takes config, keys and refusals of a translation over into the side. `locations`: places of flags that the
// translation does not know.
void take_translation(Side& side, const Translation& t, const std::map<std::string, std::string>& locations = {}) {
  for (const std::string& key : t.given()) {
    const auto location = locations.find(key);
    side.given[key] = {t.value(key), location == locations.end() ? t.source(key) : location->second};
  }
  for (const ExplainedKey& line : t.lines())  // values that a translation has filled in, as of "auto"
    if (const auto it = side.given.find(line.key); it != side.given.end() && !line.value.is_null())
      it->second.value = line.value;
  for (const KeyRefusal& r : t.refusals()) {
    const auto location = locations.find(r.key);
    side.refused.push_back(
        fmt::format("{} ({}): {}", r.what, location == locations.end() ? r.where : location->second, r.rule));
  }
  if (side.ranks == 0) side.ranks = t.ranks;
  if (!t.command.empty())
    throw UserError(side.path + " trains nothing", "check config",
                    fmt::format("its program is `ravine {}` here, and a side is a training", t.command[0]),
                    "name the script of the training");
  std::vector<Setting> settings = t.settings();
  const bool data = std::any_of(settings.begin(), settings.end(), [](const Setting& s) { return s.key == "data.train"; });
  for (;;) {
    try {
      side.config = load_config("", settings);
      break;
    } catch (const UserError& e) {
      // An option that Ravine refuses is left out and told.
      const std::string text = e.what();
      const auto it = std::find_if(settings.rbegin(), settings.rend(),
                                   [&](const Setting& s) { return text.find(s.key) != std::string::npos; });
      if (it == settings.rend()) throw;
      side.refused.push_back(text);
      settings.erase(std::next(it).base());
    }
  }
  if (!data) side.notes.push_back("it names no data");
}

// Returns the words of a text with flags, which may go over several lines, with their places.
std::vector<PlacedWord> words_of_text(const std::string& text, const std::string& path) {
  std::string joined = "python train.py ";
  for (const std::string& line : split(text, '\n')) {
    const size_t first = line.find_first_not_of(" \t");
    std::string own = first == std::string::npos || line[first] == '#' ? "" : line;
    while (!own.empty() && (own.back() == '\\' || own.back() == '\r' || own.back() == ' ')) own.pop_back();
    joined += own + " \\\n";
  }
  return launched_program(parse_launch_script(joined, path)).flags;
}

std::map<std::string, std::string> prompt_names_of(const std::vector<PlacedWord>& words) {
  std::map<std::string, std::string> locations;
  for (const PlacedWord& word : words)
    if (is_flag(word.text)) locations[flag_name(word.text)] = word.source;
  return locations;
}

Program program_of(const std::vector<PlacedWord>& words, const std::string& path) {
  size_t megatron = 0, trainer = 0;
  for (const PlacedWord& word : words) {
    if (!is_flag(word.text)) continue;
    const std::string flag = flag_name(word.text);
    if (flag == "--config" || flag == "--train_dataset_dir") return Program::mindformers;
    if (megatron_flags().contains(flag)) ++megatron;
    if (find_trainer_flag(flag.substr(2))) ++trainer;
  }
  if (megatron + trainer == 0)
    throw UserError(path + " has no flags of a training", "check config",
                    "a line or script has the flags of Megatron, of run_mindformer.py or of the Trainer",
                    "name the line that starts the training");
  return megatron >= trainer ? Program::megatron : Program::trainer;
}

void read_megatron(Side& side, const std::vector<PlacedWord>& words, MegatronJob job) {
  side.program = Program::megatron;
  if (job.ranks == 0) job.ranks = side.ranks;
  side.ranks = job.ranks;
  take_translation(side, translate_megatron(words, job), prompt_names_of(words));
}

void read_mindformers(Side& side, const std::vector<PlacedWord>& words, int64_t ranks, const SideFacts& facts) {
  side.program = Program::mindformers;
  MindFormersFacts job = mindformers_facts(ranks, false);
  job.data = [look = job.data, &facts](const std::string& type, const std::vector<std::string>& paths) {
    std::optional<MindFormersFacts::Data> found;
    try {
      found = look(type, paths);
    } catch (const UserError&) {  // the files are not here
    }
    if (!found && facts.samples > 0) found = MindFormersFacts::Data{.rows = facts.samples};
    return found;
  };
  take_translation(side, translate_mindformers(read_mindformers_line(words), job));
}

// Reads a Trainer's training from its flags; words of folders and files come first.
void read_trainer(Side& side, const std::vector<PlacedWord>& given, const SideFacts& facts) {
  side.program = Program::trainer;
  std::vector<PlacedWord> words;
  bool known = true;
  for (const PlacedWord& word : given) {
    if (is_flag(word.text)) {
      const std::string name = flag_name(word.text).substr(2);
      known = find_trainer_flag(name) ||
              find_trainer_flag(name.starts_with("no_") || name.starts_with("no-") ? name.substr(3) : name);
      if (!known)
        side.refused.push_back(fmt::format("--{} ({}): neither TrainingArguments nor run_clm.py has it", name, word.source));
    }
    if (known) words.push_back(word);
  }
  words.push_back({"--do_train", "check config"});
  TrainerLine line = read_trainer_line(words);
  if (!line.args.has("output_dir")) line.args.values["output_dir"] = std::make_shared<YamlNode>(resolve_scalar("output"));
  TrainerFacts job;
  side.ranks = job.ranks = std::max<int64_t>({1, side.ranks, facts.ranks});
  job.version = line.version;
  try {
    look_at_model(line.args, job);
    if (line.args.has("train_file")) job.columns = columns_of_batches(line.args.text("train_file"));
  } catch (const UserError& e) {
    side.notes.push_back(e.what());
  }
  if (facts.samples > 0) job.samples = facts.samples;
  take_translation(side, translate_trainer(std::move(line), job), prompt_names_of(words));
  std::erase_if(side.refused, [](const std::string& r) {
    return r.find("model_name_or_path") != std::string::npos && r.find("missing") != std::string::npos;
  });
}

void read_script(Side& side, const std::string& path, const SideFacts& facts) {
  const std::string text = read_part(path);
  if (text.compare(text.find_first_not_of(" \t\r\n"), 2, "--") == 0) {
    const std::vector<PlacedWord> words = words_of_text(text, path);
    const Program program = program_of(words, path);
    side.kind = fmt::format("flags of {}", name(program));
    if (program == Program::megatron) return read_megatron(side, words, megatron_job(facts.ranks, false));
    if (program == Program::mindformers) return read_mindformers(side, words, facts.ranks, facts);
    return read_trainer(side, words, facts);
  }
  const LaunchScript script = read_launch_script(path);
  for (const auto& [variable, value] : script.environment)
    if (value.problem.empty()) side.environment[variable] = value.text;
  const auto mentions = [&](const char* word) {
    return std::any_of(script.commands.begin(), script.commands.end(), [&](const ScriptCommand& c) {
      return std::any_of(c.begin(), c.end(), [&](const ScriptWord& w) { return w.text.find(word) != std::string::npos; });
    });
  };
  if (mentions("run_mindformer.py") || mentions("msrun_launcher.sh")) {
    side.kind = "launch script of MindFormers";
    const MindFormersLaunch launch = read_mindformers_script(script);
    side.ranks = launch.ranks > 0 ? launch.ranks : facts.ranks;
    return read_mindformers(side, launch.words, side.ranks, facts);
  }
  LaunchedProgram launched = launched_program(script);
  const Program program = program_of(launched.flags, path);
  side.kind = fmt::format("launch script of {}", name(program));
  side.ranks = launched.ranks > 0 ? launched.ranks : facts.ranks;
  if (program != Program::megatron) return read_trainer(side, launched.flags, facts);
  MegatronJob job = megatron_job(side.ranks, false);
  for (const auto& [file, written] : script.written)
    if (written.problem.empty()) job.written[file] = written.text;
  job.program = launched.program.text.substr(launched.program.text.rfind('/') + 1);
  read_megatron(side, launched.flags, std::move(job));
}

// Appends the flags that a JSON of TrainingArguments stands for. A DeepSpeed config in it is a file beside it.
void add_arguments(Side& side, const std::string& path, std::vector<PlacedWord>& words) {
  const YamlNode::Ptr root = load_yaml(read_part(path), path);
  std::string unknown;
  for (const auto& [key, value] : root->fields) {
    if (value->kind == YamlNode::Kind::null || (value->kind == YamlNode::Kind::text && value->text.empty())) continue;
    const std::string location = fmt::format("{}:{}", path, value->line);
    if (!find_trainer_flag(key)) {
      unknown += (unknown.empty() ? "" : ", ") + key;
      continue;
    }
    std::string text = value->scalar() ? value->text : json_of(*value).dump();
    std::error_code error;
    if (key == "deepspeed" && value->scalar() && !fs::exists(text, error))
      text = (fs::path(path).parent_path() / text).string();
    if (value->kind == YamlNode::Kind::list) {
      words.push_back({"--" + key, location});
      for (const YamlNode::Ptr& item : value->items) words.push_back({item->text, location});
    } else {
      words.push_back({fmt::format("--{}={}", key, text), location});
    }
  }
  if (!unknown.empty()) side.notes.push_back(fmt::format("{}: not read: {}", path, unknown));
}

// Returns the files of TrainingArguments and DeepSpeed that lie in a model's folder.
std::vector<std::string> exports_model(const std::string& folder) {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || entry.path().extension() != ".json" || name == "config.json") continue;
    try {
      if (entry.file_size() > (int64_t{1} << 16)) continue;
      const Part part = part_of(entry.path().string());
      if (part == Part::arguments || part == Part::deepspeed) found.push_back(entry.path().string());
    } catch (const UserError&) {  // another kind of file
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

void read_trainer_parts(Side& side, const std::vector<std::string>& parts, const SideFacts& facts) {
  std::vector<PlacedWord> words;
  std::vector<std::string> kinds;
  std::vector<std::string> files = parts;
  for (const std::string& part : parts) {
    std::error_code error;
    if (!fs::is_directory(part, error) || parts.size() > 1) continue;
    for (const std::string& companion : exports_model(part)) files.push_back(companion);
  }
  for (const std::string& file : files) {
    switch (part_of(file)) {
      case Part::model: {
        std::error_code error;
        const bool folder = fs::is_directory(file, error);
        const bool weights = folder && (fs::exists(fs::path(file) / "model.safetensors", error) ||
                                        fs::exists(fs::path(file) / "model.safetensors.index.json", error) ||
                                        fs::exists(fs::path(file) / "pytorch_model.bin", error));
        words.insert(words.begin(), {fmt::format("--{}={}", weights ? "model_name_or_path" : "config_name", file), file});
        kinds.emplace_back("config.json");
        break;
      }
      case Part::arguments:
        add_arguments(side, file, words);
        kinds.emplace_back("TrainingArguments");
        break;
      case Part::deepspeed:
        words.push_back({"--deepspeed=" + file, file});
        kinds.emplace_back("DeepSpeed's config");
        break;
      case Part::text:
        for (PlacedWord& word : words_of_text(read_part(file), file)) words.push_back(std::move(word));
        kinds.emplace_back("flags of the Trainer");
        break;
      default:
        throw UserError(file + " stands beside other files of a side", "check config",
                        "config.json, TrainingArguments and a DeepSpeed config may be joined by commas", "name it alone");
    }
  }
  side.kind = fmt::format("{}", fmt::join(kinds, ", "));
  read_trainer(side, words, facts);
}

}  // namespace

Side read_side(const std::string& given, const SideFacts& facts) {
  std::error_code error;
  std::vector<std::string> parts = fs::exists(given, error) ? std::vector{given} : split(given, ',');
  Side side;
  side.path = given;
  side.ranks = facts.ranks;
  const Part part = part_of(parts[0]);
  if (parts.size() == 1) switch (part) {
      case Part::run:
      case Part::yaml: {
        const std::string file = part == Part::run ? (fs::path(given) / "config.yaml").string() : given;
        side.kind = part == Part::run ? "run of Ravine" : "YAML of Ravine";
        side.config = load_config(file);
        return side;
      }
      case Part::mindformers:
        side.kind = "YAML of MindFormers";
        read_mindformers(side, {{"--config", given}, {given, given}}, facts.ranks, facts);
        return side;
      case Part::text:
        read_script(side, given, facts);
        return side;
      default:
        break;
    }
  read_trainer_parts(side, parts, facts);
  return side;
}

}  // namespace ravine

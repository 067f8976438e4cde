#include "apps/dialect_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "apps/terminal_columns.h"
#include "apps/training.h"
#include "base/error.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "comm/world.h"
#include "config/yaml_json.h"
#include "dialects/foreign_environment.h"
#include "optim/schedule.h"

namespace ravine {
namespace {

// True if the word is an option of Ravine: section.key=value with an existing section.
bool is_setting(const std::string& word) {
  const size_t equals = word.find('='), dot = word.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals) return false;
  Config all;
  const std::string section = word.substr(0, dot);
  for (const Section& s : sections_of(all))
    if (s.name == section) return true;
  return false;
}

// Returns steps (from 1) and their learning rates. The steps are the first two, the first one with the highest rate,
// the next one if its rate is the same, and the last one.
Json rates_of(const Config& c) {
  const auto rate = [&](int64_t step) { return learning_rate(c.schedule, c.optimizer.lr, c.train.steps, step - 1); };
  int64_t highest = 1;
  for (int64_t step = 2; step <= c.train.steps; ++step)
    if (rate(step) > rate(highest)) highest = step;
  Json rates = Json::object();
  std::vector<int64_t> steps{1, std::min<int64_t>(2, c.train.steps), highest, c.train.steps};
  if (highest < c.train.steps && rate(highest + 1) == rate(highest)) steps.push_back(highest + 1);
  std::sort(steps.begin(), steps.end());
  for (const int64_t step : steps) rates[std::to_string(step)] = rate(step);
  return rates;
}

bool speaks_of(const std::string& text, const std::string& option) {
  const auto of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t at = text.find(option); at != std::string::npos; at = text.find(option, at + 1)) {
    const size_t end = at + option.size();
    if (at > 0 && (of_name(text[at - 1]) || text[at - 1] == '.')) continue;
    if (end < text.size() && (of_name(text[end]) || (text[end] == '.' && end + 1 < text.size() && of_name(text[end + 1]))))
      continue;
    return true;
  }
  return false;
}

// Returns the other program's keys for the options in an error, e.g. "train.output is --output_dir"; keys of the line
// first.
std::string keys_behind(const std::string& text, const std::vector<KeySection>& sections, const Translation& t) {
  constexpr size_t kMost = 3;  // more are not helpful
  const std::vector<std::string> on_line = t.given();
  Config all;
  std::string out;
  for (const Section& section : sections_of(all))
    for (const Option& option : section.options) {
      if (!speaks_of(text, option.name())) continue;
      std::vector<std::string> known, given;
      for (const KeySection& s : sections)
        for (const DialectKey& row : s.rows) {
          if (row.status != KeyStatus::used || !speaks_of(row.option, option.name())) continue;
          known.push_back(row.key);
          if (std::find(on_line.begin(), on_line.end(), row.key) != on_line.end()) given.push_back(row.key);
        }
      const std::vector<std::string>& keys = given.empty() ? known : given;
      const bool said =
          std::any_of(keys.begin(), keys.end(), [&](const std::string& k) { return text.find(k) != std::string::npos; });
      if (keys.empty() || keys.size() > kMost || said) continue;
      out += fmt::format("{}{} is {}", out.empty() ? "" : ", ", option.name(), fmt::join(keys, " or "));
    }
  return out;
}

// Returns the given keys that have no effect in this run, but for those that agree with a file; "" if there are none.
// A long list is cut and the rest counted.
std::string idle_keys(const Translation& t) {
  constexpr size_t kMost = 240;
  std::string names;
  size_t more = 0;
  for (const ExplainedKey& line : t.lines()) {
    if (line.status != KeyStatus::inert || line.agrees) continue;
    if (more > 0 || names.size() + line.key.size() > kMost)
      ++more;
    else
      names += (names.empty() ? "" : ", ") + line.key;
  }
  if (names.empty()) return "";
  return fmt::format("no effect: {}{} (`--explain` says why)", names, more > 0 ? fmt::format(" and {} more", more) : "");
}

class DialectCall : public Call {
 public:
  DialectCall(CommandSpec spec, TranslateWords translate, std::vector<KeySection> (*keys)(), std::vector<Command> others,
              std::string list)
      : spec_(std::move(spec)), translate_(translate), keys_(keys), others_(std::move(others)), list_(std::move(list)) {}

  std::vector<Option> flags() override { return options_of(flags_); }

  std::optional<Config> read(const std::vector<std::string>& words) override {
    std::vector<std::string> own, other;
    const std::vector<Option> flags = options_of(flags_);
    for (size_t at = 0; at < words.size(); ++at) {
      if (words[at] == "--") {  // the rest are arguments of the script: $1, $2, ..
        flags_.arguments = {.words = {words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end()}, .given = true};
        break;
      }
      const std::string name = words[at].substr(0, words[at].find('='));
      const auto flag = std::find_if(flags.begin(), flags.end(), [&](const Option& f) { return "--" + f.key == name; });
      if (!list_.empty() && words[at] == list_) {
        other.push_back(words[at]);
        while (at + 1 < words.size() && !words[at + 1].starts_with("--")) other.push_back(words[++at]);
      } else if (is_setting(words[at])) {
        over_.push_back(parse_setting(words[at]));
      } else if (flag == flags.end()) {
        other.push_back(words[at]);
      } else {
        own.push_back(words[at]);
        if (!flag->is_bool() && name.size() == words[at].size() && at + 1 < words.size()) own.push_back(words[++at]);
      }
    }
    CommandSpec plain = spec_;
    plain.sections.clear();
    const Config given = read_command_line(plain, flags, own);
    if (flags_.keys || flags_.launches) return Config{};
    if (given.train.threads > 0) over_.push_back({"train.threads", std::to_string(given.train.threads)});
    refuse_stray_word(other);
    typed_ = words;
    translation_ = translate_(placed(other), flags_);
    for (const std::string& text : environment_notices(environment_of(flags_))) tell("notice: " + text);
    for (const std::string& text : translation_->notices()) tell("notice: " + text);
    if (flags_.explain && !translation_->refusals().empty()) print(explained());
    refuse_all(*translation_);
    return translation_->command.empty() ? config_of(*translation_, over_) : Config{};
  }

  int run(Config& config) override {
    try {
      return run_translated(config);
    } catch (const UserError& e) {
      const std::string keys = translation_ ? keys_behind(e.what(), keys_(), *translation_) : "";
      if (keys.empty()) throw;
      throw UserError(fmt::format("{} (here {})", e.what(), keys));
    }
  }

 private:
  // Prints a line on stderr, by rank 0, and stores it for log.txt.
  void tell(const std::string& line) {
    if (launched_rank() == 0) say(escaped(line));
    said_.push_back(line);
  }

  void tell_idle_keys() {
    if (const std::string idle = idle_keys(*translation_); !idle.empty()) tell(idle);
  }

  std::string launches_shown() const {
    if (flags_.script.empty())
      throw UserError("--launches without --script", "command line", "a script starts programs", "name it by --script FILE.sh");
    const LaunchScript script = script_of(flags_);
    std::string out;
    int number = 0;
    for (const ScriptLaunch& l : launches_of(script)) {
      Json words = Json::array();
      for (size_t i = l.program; i < l.words->size(); ++i) words.push_back((*l.words)[i].text);
      Json row{{"launch", ++number}, {"line", (*l.words)[l.program].line}, {"words", words}};
      for (const ScriptWord& w : *l.words)
        if (!w.trouble.empty() && !row.contains("unknown"))
          row["unknown"] = fmt::format("line {}: {}", w.trouble_line, w.trouble);
      out += row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
    return out;
  }

  // Throws for a word at the front without a flag: most likely the script, or an argument for the script.
  void refuse_stray_word(const std::vector<std::string>& other) const {
    if (other.empty() || other[0].starts_with("--") || other[0].ends_with(".py")) return;
    const bool script = other[0].ends_with(".sh") && other[0].find("msrun_launcher") == std::string::npos;
    const bool yaml = other[0].ends_with(".yaml") || other[0].ends_with(".yml");
    if (!script && !yaml && flags_.script.empty()) return;
    throw UserError(fmt::format("'{}' belongs to no flag", other[0]), "command line",
                    fmt::format("{} takes flags and their values", spec_.name),
                    script && flags_.script.empty() ? fmt::format("write --script {}", shell_word(other[0]))
                    : yaml                          ? fmt::format("write --config {}", shell_word(other[0]))
                           : fmt::format("write the words of the script behind --: -- {}", shell_word(other[0])));
  }

  int run_translated(Config& config) {
    if (flags_.keys) return print(key_page(spec_.name, keys_())), 0;
    if (flags_.launches) return print(launches_shown()), 0;
    if (!translation_->command.empty()) return run_command();
    if (flags_.explain) {
      if (!translation_->evaluates) translation_->derive("derived.lr", rates_of(config));
      return print(explained()), 0;
    }
    if (flags_.print_config) return print(launch_line() + to_yaml(config)), 0;
    tell_idle_keys();
    const TrainerOutputs& outputs = translation_->trainer;
    if (translation_->evaluates) return run_evaluation(config, flags_.common.backend, outputs);
    return run_training(config, flags_.common.backend, outputs, said_);
  }

  int run_command() {
    if (flags_.explain) return print(explained()), 0;
    std::vector<std::vector<std::string>> all{translation_->command};
    all.insert(all.end(), translation_->then.begin(), translation_->then.end());
    for (std::vector<std::string>& words : all) {
      if (!flags_.print_config && !launched_as_several()) leave_out_ranks(words);
      for (const Setting& s : over_) words.push_back(s.key + "=" + s.value);
    }
    if (flags_.print_config) {
      for (const auto& words : all) print("# " + line_of(words) + "\n");
      return 0;
    }
    tell_idle_keys();
    const bool several = all.size() > 1, first = launched_rank() == 0;
    std::unique_ptr<World> world;  // MPI can be initialised once per process, and each command opens a world
    if (several && launched_as_several()) {
      std::erase_if(all, [&](const auto& words) {
        if (words[0] == "chat" && first) say("notice: chat is left out, it runs on one rank so far: " + line_of(words));
        return words[0] == "chat";
      });
      world = open_world();
    }
    for (const auto& words : all) {
      if (several && first) say("command  " + line_of(words));
      if (const int status = run_program(others_, words); status != 0) {
        (void)world.release();  // the other ranks may be anywhere: to end MPI would wait for them
        return status;
      }
    }
    return 0;
  }

  // Removes the numbers of ranks: folders of ranks are read whole, and one process computes the result of all ranks.
  static void leave_out_ranks(std::vector<std::string>& words) {
    std::erase_if(words, [](const std::string& word) {
      if (!word.starts_with("parallel.tensor=") && !word.starts_with("parallel.pipeline=")) return false;
      if (!word.ends_with("=1"))
        say(fmt::format("notice: {} is left out: this process is one alone (mpirun -n N starts ranks)", word));
      return true;
    });
  }

  std::string line_of(const std::vector<std::string>& words) const {
    std::string line = ranks() > 1 && words[0] != "chat" ? fmt::format("mpirun -n {} ravine", ranks()) : "ravine";
    for (const std::string& word : words) line += " " + shell_word(word);
    return line;
  }

  std::string explained() const {
    const std::optional<int> columns = terminal_columns();
    return columns ? explanation_table(*translation_, static_cast<size_t>(*columns)) : explanation(*translation_);
  }

  int64_t ranks() const { return flags_.ranks > 0 ? flags_.ranks : std::max<int64_t>(1, translation_->ranks); }

  static void print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  // Returns the command line that starts the script's job with Ravine.
  std::string launch_line() const {
    if (flags_.script.empty()) return "";
    std::string line = fmt::format("# mpirun -n {} ravine {}", ranks(), spec_.name);
    for (size_t i = 0; i < typed_.size(); ++i) {
      if (typed_[i] == "--print-config" || typed_[i].starts_with("--ranks=")) continue;
      if (typed_[i] == "--ranks") {
        ++i;
        continue;
      }
      line += " " + shell_word(typed_[i]);
    }
    return line + "\n";
  }

  CommandSpec spec_;
  TranslateWords translate_;
  std::vector<KeySection> (*keys_)();
  std::vector<Command> others_;
  std::string list_;
  DialectFlags flags_;
  std::vector<Setting> over_;
  std::optional<Translation> translation_;
  std::vector<std::string> typed_;  // the whole command line
  std::vector<std::string> said_;   // lines for log.txt
};

}  // namespace

std::map<std::string, std::string> environment_of(const DialectFlags& flags) {
  std::map<std::string, std::string> set = foreign_environment();
  if (!flags.script.empty())
    for (const auto& [name, value] : script_of(flags).environment) set[name] = value.text;
  return set;
}

LaunchScript script_of(const DialectFlags& flags) {
  LaunchScript script = read_launch_script(flags.script, flags.arguments);
  script.launch = flags.launch;
  return script;
}

Command dialect_command(CommandSpec spec, std::string group, TranslateWords translate, std::vector<KeySection> (*keys)(),
                        std::vector<Command> others, std::string list) {
  Command made{std::move(spec), std::move(group), nullptr, {}, {}};
  made.call = [spec = made.spec, translate, keys, others = std::move(others),
               list = std::move(list)]() -> std::unique_ptr<Call> {
    return std::make_unique<DialectCall>(spec, translate, keys, others, list);
  };
  return made;
}

}  // namespace ravine

#include "config/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "config/chosen.h"
#include "config/flag_word.h"
#include "config/likely_sources.h"
#include "config/load.h"
#include "config/other_names.h"
#include "config/stray_word.h"

namespace ravine {
namespace {

constexpr const char* kCommandLine = "command line";

bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

// True if the word has the form name=value or section.key=value.
bool is_setting(const std::string& word) {
  size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; });
}

class Words {
 public:
  Words(const CommandSpec& spec, const std::vector<Option>& flags, const std::vector<std::string>& args,
        const ForeignWords& foreign)
      : spec_(spec), flags_(flags), args_(args), foreign_(foreign) {}

  Config read() {
    bool only_names = false;
    while (at_ < args_.size()) {
      const std::string& word = args_[at_];
      if (!only_names && word == "--") {
        only_names = true;
        ++at_;
      } else if (!only_names && is_flag(word)) {
        flag(word);
      } else if (!only_names && !spec_.sections.empty() && is_setting(word)) {
        ++at_;
        setting(parse_setting(word));
      } else {
        name_positions_.push_back(at_++);
        names_.push_back(word);
      }
    }
    assign_positionals();
    // A command may take only one of the options that name the model. The other one, in a run's config, is then
    // cleared.
    if (!file_.empty() &&
        std::any_of(settings_.begin(), settings_.end(), [](const Setting& s) { return s.key == "model.path"; }) &&
        option_named([](const Option& o) { return o.name() == "model.config"; }).empty())
      settings_.push_back({"model.config", "", kCommandLine, true});
    Config config = load_config(file_, settings_, foreign_);
    note_repeated(config);
    share(config);
    check_required();
    return config;
  }

 private:
  [[noreturn]] void wrong(const std::string& what, const std::string& rule, const std::string& fix) const {
    throw UserError(what, kCommandLine, rule, fix);
  }

  void flag(const std::string& word) {
    size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    ++at_;
    if (name == "--config" && !spec_.sections.empty()) {
      const std::string given = value(name, word, equals);
      const auto path = with_home(given);
      if (!path) wrong(fmt::format("--config is '{}'", given), kNoHome, kNoHomeFix);
      std::error_code error;
      for (const char* inside : {"run.yaml", "config.yaml"})
        if (const std::filesystem::path config = std::filesystem::path(*path) / inside;
            std::filesystem::is_regular_file(config, error))
          wrong(fmt::format("--config is '{}'", given), "it is a folder, a config is a file",
                fmt::format("write --config {}", shell_word(config.lexically_normal().string())));
      if (!file_.empty() && file_ != *path)
        repeated_.push_back(fmt::format("--config is given twice, {} and {}", file_, *path));
      file_ = *path;
      return;
    }
    auto found =
        std::find_if(flags_.begin(), flags_.end(), [&](const Option& f) { return !f.rule.positional && "--" + f.key == name; });
    if (found == flags_.end()) unknown(name, word);
    Option option = *found;
    option.key = name;  // the name in errors
    const std::string before = option.yaml();
    if (given_.contains(found->key) && is_name(name + "s"))
      wrong(name + " is given twice", "it takes one", fmt::format("several stand in a file: {}s FILE.txt, one per line", name));
    if (option.is_bool()) {
      option.assign_text(equals == std::string::npos ? "true" : word.substr(equals + 1), kCommandLine);
    } else if (option.is_list()) {
      list(option, word, equals);
    } else {
      option.assign_text(value(name, word, equals, option.rule.metavar), kCommandLine);
    }
    if (given_.contains(found->key) && !option.is_list() && found->rule.same_as.empty() && option.yaml() != before)
      repeated_.push_back(fmt::format("{} is given twice, {} and {}", name, before, option.yaml()));
    given(*found);
  }

  // Notes that the flag was given. A shorthand sets its option too.
  void given(const Option& f) {
    given_.insert(f.key);
    if (f.rule.same_as.empty()) return;
    bool literal = f.is_text();
    settings_.push_back({f.rule.same_as, literal ? f.text() : f.yaml(), kCommandLine, literal});
  }

  std::string value(const std::string& name, const std::string& word, size_t equals, const std::string& metavar = "") {
    if (equals != std::string::npos) return word.substr(equals + 1);
    if (at_ == args_.size() || args_[at_].starts_with("--"))
      wrong(name + " has no value", "it needs one", fmt::format("write {}={}", name, metavar.empty() ? "VALUE" : metavar));
    return args_[at_++];
  }

  // Reads --input A B C, up to the next flag or option; a repeated flag adds elements. A list with rule `named`, or of
  // one element, takes one per flag.
  void list(const Option& option, const std::string& word, size_t equals) {
    std::vector<std::string>& all = lists_[option.key];
    size_t before = all.size();
    if (equals != std::string::npos || option.rule.named || option.rule.count == 1) {
      all.push_back(value(option.key, word, equals, option.rule.metavar));
    } else {
      while (at_ < args_.size() && !is_flag(args_[at_]) && !(!spec_.sections.empty() && is_setting(args_[at_])))
        all.push_back(args_[at_++]);
    }
    if (all.size() == before)
      wrong(option.key + " has no value", "it needs one or more", fmt::format("write {} A B", option.key));
    assign_list(option, all);
  }

  void assign_list(const Option& option, const std::vector<std::string>& words) const {
    YamlNode list;
    list.kind = YamlNode::Kind::list;
    bool texts = std::holds_alternative<std::vector<std::string>*>(option.target);
    for (const std::string& w : words) {
      auto item = std::make_shared<YamlNode>(resolve_scalar(w));
      if (texts) item->kind = YamlNode::Kind::text;
      list.items.push_back(std::move(item));
    }
    option.assign(list, kCommandLine);
  }

  // True if `name` is a flag of this command ("--model") or an option that it takes ("train.steps").
  bool is_name(const std::string& name) const {
    if (name == "--config") return !spec_.sections.empty();
    if (name.starts_with("--"))
      return std::any_of(flags_.begin(), flags_.end(),
                         [&](const Option& f) { return !f.rule.positional && "--" + f.key == name; });
    return !option_named([&](const Option& o) { return o.name() == name; }).empty();
  }

  // True if the option takes this value; always true for flags.
  static bool takes_value(const std::string& name, const std::string& value) {
    Config all;
    for (const Section& s : sections_of(all))
      for (const Option& o : s.options) {
        if (o.name() != name) continue;
        try {
          o.assign_text(value, kCommandLine);
        } catch (const UserError&) {
          return false;
        }
      }
    return true;
  }

  // Returns the first option that this command takes and that fits; "" if none does.
  std::string option_named(const std::function<bool(const Option&)>& fits) const {
    Config all;
    for (const Section& s : sections_of(all))
      for (const Option& o : s.options)
        if (fits(o) && takes(spec_, o)) return o.name();
    return "";
  }

  // Returns the words after the last one read, up to a flag or an option.
  std::vector<std::string> words_behind() const {
    const auto begin = args_.begin() + static_cast<std::ptrdiff_t>(at_);
    return {begin, std::find_if(begin, args_.end(), [](const std::string& w) { return is_flag(w) || is_setting(w); })};
  }

  // Throws the error of an unknown flag. `word` is the typed word; the following words begin at args_[at_].
  [[noreturn]] void unknown(const std::string& name, const std::string& word) const {
    std::vector<std::string> names = {"--help"};
    if (!spec_.sections.empty()) names.push_back("--config");
    for (const Option& f : flags_)
      if (!f.rule.positional) names.push_back("--" + f.key);
    const std::string key = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    std::string plain = key, value;
    std::replace(plain.begin(), plain.end(), '-', '_');
    const std::vector<std::string> behind = word == name ? words_behind() : std::vector{word.substr(name.size() + 1)};
    if (!behind.empty()) value = behind[0];
    std::string fix;
    if (is_setting(key + "=") && key.find('.') != std::string::npos)
      fix = fmt::format("options have no dashes: write {}={}", key, value.empty() ? "VALUE" : shell_word(value));
    const NameThere there = [this](const std::string& n) { return is_name(n); };
    if (const std::string several = likely_sources(behind); fix.empty() && !several.empty())
      if (fix = other_name_advice(name, there, several, takes_value, foreign_); !fix.starts_with("here it is data."))
        fix.clear();
    if (fix.empty()) fix = other_name_advice(name, there, value, takes_value, foreign_);
    if (fix.empty() && !name.starts_with("--") && is_name("--" + key)) fix = fmt::format("did you mean '--{}'?", key);
    if (fix.empty())
      if (const std::string option = option_named([&](const Option& o) { return o.key == plain; }); !option.empty())
        fix = fmt::format("options are written section.key=value: {}={}", option, value.empty() ? "VALUE" : shell_word(value));
    if (fix.empty() && key.size() >= 3) {  // the beginning of one flag
      std::vector<std::string> longer;
      for (const std::string& n : names)
        if (n.starts_with("--" + key)) longer.push_back(n);
      if (longer.size() == 1) fix = fmt::format("did you mean '{}'?", longer[0]);
    }
    if (fix.empty()) fix = did_you_mean(name, names, fmt::format("see `ravine {} --help`", spec_.name));
    wrong(fmt::format("unknown flag '{}'", name.substr(0, 80)), fmt::format("{} has no such flag", spec_.name), fix);
  }

  void setting(Setting s) {
    const std::string section = s.key.substr(0, s.key.find('.'));
    Config all;
    bool exists = false, taken = false;  // exists: if there is no such option, true if the section exists
    for (const Section& one : sections_of(all)) {
      if (one.name != section) continue;
      for (const Option& o : one.options) exists = exists || o.name() == s.key;
      for (const Option& o : one.options)
        if (!exists || o.name() == s.key) taken = taken || takes(spec_, o);
      exists = true;
    }
    if (exists && !taken)
      wrong(fmt::format("option '{}'", s.key.substr(0, 80)),
            fmt::format("{} takes {}{}", spec_.name,
                        std::none_of(spec_.sections.begin(), spec_.sections.end(),
                                     [](const std::string& n) { return n.find('.') != std::string::npos; })
                            ? "the sections "
                            : "",
                        fmt::join(spec_.sections, ", ")),
            "remove it");
    settings_.push_back(std::move(s));
  }

  // Prints notes on values given twice (the last one is used) and on reset options. Rank 0 only.
  void note_repeated(const Config& config) const {
    if (launched_rank() > 0) return;
    std::vector<std::string> lines = repeated_;
    for (size_t i = 0; i < settings_.size(); ++i)
      for (size_t k = i + 1; k < settings_.size(); ++k)
        if (settings_[k].key == settings_[i].key) {
          if (settings_[k].value != settings_[i].value)
            lines.push_back(
                fmt::format("{} is given twice, {} and {}", settings_[i].key, settings_[i].value, settings_[k].value));
          break;
        }
    for (const std::string& line : lines) print_stderr(escaped(fmt::format("note: {}: the last counts", line)));
    for (const std::string& line : left_aside(config)) print_stderr(escaped("note: " + line));
  }

  void assign_positionals() {
    size_t next = 0;
    for (const Option& f : flags_) {
      if (!f.rule.positional || next == names_.size()) continue;
      Option option = f;
      if (f.is_list()) {
        assign_list(option, {names_.begin() + static_cast<std::ptrdiff_t>(next), names_.end()});
        next = names_.size();
      } else {
        option.assign_text(names_[next++], kCommandLine);
      }
      given(f);
    }
    if (next == names_.size()) return;
    wrong(fmt::format("'{}'", names_[next].substr(0, 80)),
          fmt::format("{} takes no further words without a flag or section.key=", spec_.name), advice_for_positional(next));
  }

  // Returns the advice for a word without a flag.
  std::string advice_for_positional(size_t which) const {
    namespace fs = std::filesystem;
    const std::string& word = names_[which];
    const size_t at = name_positions_[which];
    const std::string before = at > 0 ? args_[at - 1] : "", quoted = shell_word(word);
    const std::string after = at + 1 < args_.size() ? args_[at + 1] : "";
    const std::string value_behind = after.empty() || is_flag(after) || is_setting(after) ? "VALUE" : shell_word(after);
    if (std::string suggestion = spelled_otherwise(word, [this](const std::string& name) { return is_name(name); });
        !suggestion.empty())
      return suggestion;
    if (word.ends_with(':') && is_name(word.substr(0, word.size() - 1)))
      return fmt::format("write {}={}", word.substr(0, word.size() - 1), value_behind);
    for (size_t i = at; i-- > 0;)
      if (is_setting(args_[i]))
        if (const std::string whole = value_cut_at_blanks(args_, i); !whole.empty())
          return "a value with blanks stands in quotes: " + shell_word(whole);
    if (is_name("--explain") && !after.starts_with('=') &&
        !option_named([&](const Option& o) { return o.name() == word || o.section == word; }).empty())
      return fmt::format("what it means is told by ravine {} --explain {}", spec_.name, word);
    for (const Option& f : flags_)
      if ("--" + f.key == before && f.is_bool() && resolve_scalar(word).kind == YamlNode::Kind::boolean)
        return resolve_scalar(word).boolean ? fmt::format("{} is a switch: leave out '{}'", before, word)
                                            : fmt::format("{0} is a switch: leave it out, or write {0}=false", before);
    for (const Option& f : flags_)
      if (f.key == word) return fmt::format("did you mean '--{}'?", f.key);
    if (before.ends_with('=') && is_setting(before)) return fmt::format("no blank behind '=': write {}{}", before, quoted);
    if (is_name(word)) {
      if (after == "=" && at + 2 < args_.size())
        return fmt::format("no blanks around '=': write {}={}", word, shell_word(args_[at + 2]));
      if (after.size() > 1 && after[0] == '=')
        return fmt::format("no blank before '=': write {}={}", word, shell_word(after.substr(1)));
      return fmt::format("an option is written with its value: {}={}", word, value_behind);
    }
    // The word follows a flag that took only the first word of a text.
    if (at > 1 && is_flag(args_[at - 2]) && args_[at - 2].find('=') == std::string::npos)
      for (const Option& f : flags_)
        if ("--" + f.key == args_[at - 2] && f.is_text() && f.rule.path == Rule::Path::none && f.rule.choices.empty())
          return fmt::format("a text with blanks stands in quotes: {} \"{} {} ..\"", args_[at - 2], before, word);
    if (std::error_code found; at > 0 && is_setting(before)) {  // the value may be a path with blanks
      std::string whole = before;
      for (size_t i = at; i < args_.size() && !is_setting(args_[i]) && !is_flag(args_[i]); ++i) {
        whole += " " + args_[i];
        if (fs::exists(whole.substr(whole.find('=') + 1), found))
          return fmt::format("a path with blanks stands in quotes: {}", shell_word(whole));
      }
    }
    std::error_code error;
    const bool one = std::count_if(flags_.begin(), flags_.end(), [](const Option& f) { return f.rule.positional; }) == 1;
    if (one && which > 0 && fs::exists(word, error))
      return fmt::format("it takes one at a time: ravine {} {}", spec_.name, quoted);
    if (is_name("--tokenizer") && !is_name("--input")) {
      std::string tokenizer = "DIR";
      for (size_t i = 0; i + 1 < args_.size(); ++i)
        if (args_[i] == "--tokenizer") tokenizer = shell_word(args_[i + 1]);
      const bool ids = word.find_first_not_of("[] ,0123456789") == std::string::npos;
      if (fs::exists(word, error)) return "a tokenizer is given as --tokenizer " + quoted;
      if (ids && spec_.name.ends_with("decode")) {
        std::string list;  // numbers separated by commas
        for (size_t i = which; i < names_.size(); ++i) {
          std::string numbers = names_[i];
          for (char& c : numbers)
            if (c < '0' || c > '9') c = ' ';
          for (const std::string& n : split(numbers, ' '))
            if (!n.empty()) list += (list.empty() ? "" : ", ") + n;
        }
        return fmt::format("ids come from stdin: echo '[{}]' | ravine {} --tokenizer {}", list, spec_.name, tokenizer);
      }
      if (spec_.name.ends_with("encode"))
        return fmt::format("text comes from stdin: echo {} | ravine {} --tokenizer {}", quoted, spec_.name, tokenizer);
    }
    auto ends = [&](std::initializer_list<const char*> suffixes) {
      return std::any_of(suffixes.begin(), suffixes.end(), [&](const char* s) { return word.ends_with(s); });
    };
    if (ends({".yaml", ".yml"}) && is_name("--config")) return "a config is given as --config " + quoted;
    for (const char* inside : {"run.yaml", "config.yaml"})  // a folder of init or of a run
      if (const fs::path config = fs::path(word) / inside; fs::is_regular_file(config, error)) {
        if (is_name("--config") && is_name("train.steps"))
          return "a run is begun or gone on with by --config " + shell_word(config.lexically_normal().string());
        if (is_name("--model")) return "a run's folder stands for its model: --model " + quoted;
      }
    const bool folder = fs::is_directory(word, error), model = folder && fs::exists(fs::path(word) / "config.json", error);
    if (model && is_name("--model")) return "a model is given as --model " + quoted;
    if (model && is_name("model.path")) return "a model is given as model.path=" + quoted;
    if (ends({"config.json"}) && is_name("model.config"))
      return fmt::format("the shape of a new model is given as model.config={}", quoted);
    if (folder || ends({".txt", ".jsonl", ".json", ".csv", ".parquet", ".gz", ".zst", ".xz", ".safetensors", ".bin", ".idx"})) {
      if (is_name("--input")) return "a file is given as --input " + quoted;
      if (is_name("--prompts")) return "prompts of a file are given as --prompts " + quoted;
      if (is_name("data.train")) return "data are given as data.train=" + quoted;
    }
    if (is_name("--prompt") && !given_.contains("prompt") && !given_.contains("prompts"))
      return "a prompt is given as --prompt " + quoted;
    if (is_name("--prompt")) return "there is a prompt already: leave this word out";
    return fmt::format("see `ravine {} --help`", spec_.name);
  }

  // Sets the field of a shorthand to the config's value, if the flag was not given.
  void share(Config& config) const {
    for (const Section& s : sections_of(config))
      for (const Option& o : s.options)
        for (const Option& f : flags_)
          if (f.rule.same_as == o.name()) {
            Option target = f;
            target.rule = {};
            target.assign(*load_yaml(o.yaml(), kCommandLine, false), kCommandLine);
          }
  }

  void check_required() const {
    for (const Option& f : flags_) {
      if (!f.rule.required || given_.contains(f.key)) continue;
      if (!f.rule.same_as.empty() && f.yaml() != "\"\"" && f.yaml() != "[]") continue;  // set in the config
      const std::string name = f.rule.positional ? flag_word(f) : "--" + f.key;
      wrong(fmt::format("{} is missing", name), fmt::format("{} needs it: {}", spec_.name, f.help),
            "for example: " + spec_.example);
    }
  }

  const CommandSpec& spec_;
  const std::vector<Option>& flags_;
  const std::vector<std::string>& args_;
  const ForeignWords& foreign_;
  size_t at_ = 0;
  std::string file_;
  std::vector<Setting> settings_;
  std::vector<std::string> names_;  // words without a flag; name_positions_ has their positions in args_
  std::vector<size_t> name_positions_;
  std::set<std::string> given_;
  std::vector<std::string> repeated_;  // notes on flags that were given twice with different values
  std::map<std::string, std::vector<std::string>> lists_;
};

}  // namespace

bool takes(const CommandSpec& spec, const Option& option) {
  return std::any_of(spec.sections.begin(), spec.sections.end(),
                     [&](const std::string& s) { return s == option.section || s == option.name(); });
}

Config read_command_line(const CommandSpec& spec, const std::vector<Option>& flags, const std::vector<std::string>& args,
                         const ForeignWords& words) {
  return Words(spec, flags, args, words).read();
}

}  // namespace ravine

// One declaration per option. A struct of options has a member
//   template <class V> void each(V&& v) { v("steps", steps, "optimizer steps of the whole run", at_least(1)); ... }
// From that one line come reading, writing, validation, help, docs and completion. Field types: bool, int64_t, double,
// std::string, enums with a table of names and std::optional of such (choice.h), std::vector of int64_t, double or std::string,
// std::map of names to int64_t or double, and std::vector of structs with `each`. A text with one_of is for names that only a
// table at run time knows.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/choice.h"
#include "config/yaml.h"

namespace ravine {

// What a run that goes on from a checkpoint may do with an option: nothing (it has to be as it was), change it, or change it at
// the price of equal bits. Every option of a Config decides (tests/unit/config/config.cpp); flags do not.
enum class OnResume : uint8_t { undecided, fixed, may_change, other_bits };

// What a value must satisfy; joined by &. Bounds and choices hold for each element of a list.
struct Rule {
  std::optional<double> min, max;
  bool above = false, below = false;  // min / max themselves are excluded
  bool zero = false;                  // 0 is allowed beside the bounds
  std::string why;                    // said behind the bounds, where they are not obvious
  std::vector<std::string> choices;   // of an enum: the names of all its values, unless one_of names some
  std::string none;                   // optional choices and numbers: the word for no value
  int64_t count = -1;                 // exact length of a list
  bool filled = false;                // no empty text or list
  int64_t max_bytes = 4096;           // of a text: as long as a path may be
  std::string reason;                 // said instead of the bound
  bool bare = false;                  // in a struct of a list: the field that a bare text sets
  bool lone = false;                  // a list of one number is written without brackets
  bool required = false;              // flags: must be given
  bool positional = false;            // flags: given without its name; a list takes all that is left
  bool named = false;                 // flags: a list of VALUE or NAME=VALUE, each behind a flag of its own (named_path.h)
  std::string same_as;                // flags: shorthand of this config key
  std::string metavar;                // word for the value in help
  OnResume on_resume = OnResume::undecided;
  bool map = false;                // of a text: a map of YAML is taken too, and becomes JSON
  std::vector<std::string> words;  // of a path: texts that are choices and no path
  bool common = false;             // shown by --help; --help-all shows every option
  std::string detail;              // formulas, sources and cases, for --explain and docs/options.md
  // The text is a path (or several words of which one is).
  enum class Path : uint8_t { none, reads, reads_folder, writes };
  Path path = Path::none;
};

Rule operator&(Rule a, const Rule& b);
inline Rule at_least(double x) { return {.min = x}; }
inline Rule above(double x) { return {.min = x, .above = true}; }
inline Rule at_most(double x) { return {.max = x}; }
inline Rule below(double x) { return {.max = x, .below = true}; }
inline Rule between(double a, double b) { return {.min = a, .max = b}; }
inline Rule or_zero() { return {.zero = true}; }
inline Rule because(std::string why) { return {.why = std::move(why)}; }
inline Rule at_most_bytes(int64_t n) { return {.max_bytes = n}; }
inline Rule one_of(std::vector<std::string> words) { return {.choices = std::move(words)}; }
// Some values of an enum, in the order in which people see them; std::nullopt stands for the word `none`.
template <ChoiceType E>
Rule one_of(std::initializer_list<std::optional<E>> values, std::string none = "") {
  std::vector<std::string> words;
  for (const std::optional<E>& v : values) words.push_back(v ? std::string(name(*v)) : none);
  return {.choices = std::move(words), .none = std::move(none)};
}
// Of an optional number, or choice: the word for none, listed before all its values.
inline Rule no_value(std::string word) { return {.none = std::move(word)}; }
inline Rule length(int64_t n) { return {.count = n}; }
inline Rule filled() { return {.filled = true}; }
inline Rule bare() { return {.bare = true}; }
inline Rule lone() { return {.lone = true}; }
inline Rule required() { return {.required = true}; }
inline Rule positional() { return {.positional = true}; }
inline Rule named() { return {.named = true}; }
inline Rule same_as(std::string key) { return {.same_as = std::move(key)}; }
// The text names a file or folder that is read (reads_folder: and in which nothing may be written), or written. ~, ~/.. and
// ~user/.. at its beginning become a home folder, as in a shell.
inline Rule reads() { return {.path = Rule::Path::reads}; }
inline Rule reads_folder() { return {.path = Rule::Path::reads_folder}; }
inline Rule writes() { return {.path = Rule::Path::writes}; }
// Of a path: words that stand for a choice, whatever files there are of such names.
inline Rule or_words(std::vector<std::string> words) { return {.words = std::move(words)}; }
// A file may give a map instead of the text; it is kept as JSON, at most 64 KiB.
inline Rule or_map() { return {.max_bytes = 65536, .map = true}; }
inline Rule metavar(std::string word) { return {.metavar = std::move(word)}; }
inline Rule common() { return {.common = true}; }
inline Rule detail(std::string text) { return {.detail = std::move(text)}; }
inline Rule fixed() { return {.on_resume = OnResume::fixed}; }
inline Rule may_change() { return {.on_resume = OnResume::may_change}; }
inline Rule other_bits() { return {.on_resume = OnResume::other_bits}; }

// The path with ~, ~/.. or ~user/.. replaced by the home folder; nothing where that is not known. Others as they are.
std::optional<std::string> with_home(const std::string& path);
inline constexpr const char* kNoHome = "~ at the beginning stands for a home folder, and this one is not known";
inline constexpr const char* kNoHomeFix = "write the whole path, or ./~.. for a file of this name";

struct Option;

// A std::vector of structs, seen without its type.
struct Records {
  virtual ~Records() = default;
  virtual size_t size() const = 0;
  virtual void clear() = 0;
  virtual void append() = 0;  // one with default values
  virtual std::vector<Option> fields(size_t i) = 0;
};

// A declared option: key, help, rule, and where its value lives. Valid as long as the struct it was taken from.
struct Option {
  std::string section, key;  // section "" for flags and fields of list elements
  std::string help;
  Rule rule;
  std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*, std::vector<double>*, std::vector<std::string>*,
               std::shared_ptr<Records>, std::shared_ptr<AnyChoice>, std::map<std::string, int64_t>*,
               std::map<std::string, double>*, std::optional<double>*>
      target;
  std::string heading = "";  // flags: the heading of the help page, "" for the first one

  std::string name() const { return section.empty() ? key : section + "." + key; }
  bool is_bool() const { return std::holds_alternative<bool*>(target); }
  bool is_choice() const { return std::holds_alternative<std::shared_ptr<AnyChoice>>(target); }
  bool is_text() const { return std::holds_alternative<std::string*>(target) || is_choice(); }  // taken literally
  bool is_map() const { return holds_one_of<std::map<std::string, int64_t>*, std::map<std::string, double>*>(); }
  bool is_list() const {
    return holds_one_of<std::vector<int64_t>*, std::vector<double>*, std::vector<std::string>*, std::shared_ptr<Records>>();
  }
  std::string text() const;  // the value of a text or a choice as it stands
  // The path that the text stands for; "" where it is empty, a word of the rule, a map, or the option takes no path.
  std::string path() const;

  // Reads a value; a UserError says option, place, rule and fix. `source` is the file, or what stands for it (command line).
  void assign(const YamlNode& value, const std::string& source) const;
  // Reads text as it stands on the command line: taken literally by text options, as YAML by others.
  void assign_text(const std::string& text, const std::string& source) const;
  std::string yaml() const;  // the value on one line; reads back exactly
  std::string type() const;  // for people: "whole number, at least 1", "adamw | adam | sgd"

 private:
  template <class... T>
  bool holds_one_of() const {
    return (std::holds_alternative<T>(target) || ...);
  }
};

template <class S>
std::vector<Option> options_of(S& options, const std::string& section = "");

// ---- below: how a struct becomes a list of Option ----

template <class T>
class RecordsOf : public Records {
 public:
  explicit RecordsOf(std::vector<T>* list) : list_(list) {}
  size_t size() const override { return list_->size(); }
  void clear() override { list_->clear(); }
  void append() override { list_->emplace_back(); }
  std::vector<Option> fields(size_t i) override { return options_of((*list_)[i]); }

 private:
  std::vector<T>* list_;
};

class OptionCollector {
 public:
  OptionCollector(std::vector<Option>& out, const std::string& section) : out_(out), section_(section) {}
  template <class T>
  void operator()(const char* key, T& field, const char* help, Rule rule = {}) {
    Option option{section_, key, help, std::move(rule), {}};
    if constexpr (requires { option.target = &field; }) {
      option.target = &field;
    } else if constexpr (ChoiceType<T>) {
      if (option.rule.choices.empty()) option.rule.choices = all_names<T>();
      option.target = std::make_shared<ChoiceOf<T>>(&field);
    } else if constexpr (ChoiceType<typename T::value_type>) {
      if (option.rule.choices.empty()) option.rule.choices = all_names<typename T::value_type>({option.rule.none});
      option.target = std::make_shared<OptionalChoice<typename T::value_type>>(&field, option.rule.none);
    } else {
      option.target = std::make_shared<RecordsOf<typename T::value_type>>(&field);
    }
    option.heading = heading_;
    out_.push_back(std::move(option));
  }
  // The heading of the flags that follow, on the help page.
  void heading(const char* text) { heading_ = text; }

 private:
  std::string heading_;
  std::vector<Option>& out_;
  const std::string& section_;
};

template <class S>
std::vector<Option> options_of(S& options, const std::string& section) {
  std::vector<Option> out;
  options.each(OptionCollector(out, section));
  return out;
}

// The candidate that `word` probably means, as " did you mean 'x'?" advice, else `otherwise`.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates, const std::string& otherwise);

}  // namespace ravine

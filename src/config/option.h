// One declaration per option. A struct of options has a member
//   template <class V> void each(V&& v) { v("steps", steps, "optimizer steps of the whole run", at_least(1)); ... }
// This line gives reading, writing, validation, help, docs and completion. Types of fields:
// - bool, int64_t, double, std::string;
// - enums with a table of names and their std::optional (choice.h);
// - std::vector of int64_t, double, std::string or structs with `each`;
// - std::map of names to int64_t or double.
//
// A text with one_of is for names that only a table at run time has.
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

// The rule for an option when a run resumes: its value must be the same, may change, or may change with other bits as
// the result. Every option of a Config must have one (tests/unit/config/config.cpp); flags do not.
enum class OnResume : uint8_t { undecided, fixed, may_change, other_bits };

// The conditions on a value; combined by &. Bounds and choices apply to each element of a list.
struct Rule {
  std::optional<double> min, max;
  bool above = false, below = false;  // min and max themselves are excluded
  bool zero = false;                  // 0 is allowed too
  std::string why;                    // reason that follows the bounds in messages
  std::vector<std::string> choices;   // for an enum: the names of all its values, unless one_of lists some
  std::string none;                   // optional choices and numbers: the word for no value
  int64_t count = -1;                 // exact length of a list
  bool filled = false;                // no empty text or list is allowed
  int64_t max_bytes = 4096;           // for a text: the longest one, as long as a path may be
  std::string reason;                 // text that replaces the bounds in messages
  bool bare = false;                  // in a struct of a list: the field that a plain text sets
  bool lone = false;                  // a list of one number is written without brackets
  bool required = false;              // flags: must be set
  bool positional = false;            // flags: given without its name; a list takes all remaining words
  bool named = false;                 // flags: a list of VALUE or NAME=VALUE, each after its own flag (named_path.h)
  std::string same_as;                // flags: shorthand of this config option
  std::string metavar;                // the word for the value in help
  OnResume on_resume = OnResume::undecided;
  bool map = false;                // for a text: a YAML map is allowed too, and stored as JSON
  std::vector<std::string> words;  // for a path: texts that are choices and no path
  bool common = false;             // shown by --help; --help-all shows every option
  std::string detail;              // formulas, sources and cases, for --explain and docs/options.md
  // The kind of a text that is a path (or several words with one path): none: no path; reads: a file or folder that is
  // read; reads_folder: a folder that is read and stays unchanged; writes: an output.
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
// Allows some values of an enum, in the order of the help; std::nullopt stands for the word `none`.
template <ChoiceType E>
Rule one_of(std::initializer_list<std::optional<E>> values, std::string none = "") {
  std::vector<std::string> words;
  for (const std::optional<E>& v : values) words.push_back(v ? std::string(name(*v)) : none);
  return {.choices = std::move(words), .none = std::move(none)};
}
// Sets the word that stands for no value of an optional number or choice, e.g. "auto". The help lists it before all
// values.
inline Rule no_value(std::string word) { return {.none = std::move(word)}; }
inline Rule length(int64_t n) { return {.count = n}; }
inline Rule filled() { return {.filled = true}; }
inline Rule bare() { return {.bare = true}; }
inline Rule lone() { return {.lone = true}; }
inline Rule required() { return {.required = true}; }
inline Rule positional() { return {.positional = true}; }
inline Rule named() { return {.named = true}; }
inline Rule same_as(std::string key) { return {.same_as = std::move(key)}; }
// Rules of a text that is a path: to be read, to be read and to stay an unchanged folder (reads_folder), or to be
// written. ~, ~/.. and ~user/.. at its beginning become a home folder, as in a shell.
inline Rule reads() { return {.path = Rule::Path::reads}; }
inline Rule reads_folder() { return {.path = Rule::Path::reads_folder}; }
inline Rule writes() { return {.path = Rule::Path::writes}; }
// Allows words that are choices and no path, even if a file has the same name.
inline Rule or_words(std::vector<std::string> words) { return {.words = std::move(words)}; }
// Allows a map in a file instead of the text; it is stored as JSON, at most 64 KiB.
inline Rule or_map() { return {.max_bytes = 65536, .map = true}; }
inline Rule metavar(std::string word) { return {.metavar = std::move(word)}; }
inline Rule common() { return {.common = true}; }
inline Rule detail(std::string text) { return {.detail = std::move(text)}; }
inline Rule fixed() { return {.on_resume = OnResume::fixed}; }
inline Rule may_change() { return {.on_resume = OnResume::may_change}; }
inline Rule other_bits() { return {.on_resume = OnResume::other_bits}; }

// Returns the path with ~, ~/.. or ~user/.. replaced by the home folder; nothing if the folder is unknown. Other paths
// are unchanged.
std::optional<std::string> with_home(const std::string& path);
inline constexpr const char* kNoHome = "~ at the beginning stands for a home folder, and this one is not known";
inline constexpr const char* kNoHomeFix = "write the whole path, or ./~.. for a file of this name";

struct Option;

// A reference to a std::vector of option structs, independent of their type.
struct Records {
  virtual ~Records() = default;
  virtual size_t size() const = 0;
  virtual void clear() = 0;
  virtual void append() = 0;  // appends an element with default values
  virtual std::vector<Option> fields(size_t i) = 0;
};

// A declared option: key, help, rule and address of its value. Valid as long as the struct that declares it.
struct Option {
  std::string section, key;  // section is "" for flags and fields of list elements
  std::string help;
  Rule rule;
  std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*, std::vector<double>*, std::vector<std::string>*,
               std::shared_ptr<Records>, std::shared_ptr<AnyChoice>, std::map<std::string, int64_t>*,
               std::map<std::string, double>*, std::optional<double>*>
      target;
  std::string heading = "";  // flags: the heading on the help page; "" for the first heading

  std::string name() const { return section.empty() ? key : section + "." + key; }
  bool is_bool() const { return std::holds_alternative<bool*>(target); }
  bool is_choice() const { return std::holds_alternative<std::shared_ptr<AnyChoice>>(target); }
  // True if the value is a text or a choice, which is taken literally and not parsed as YAML.
  bool is_text() const { return std::holds_alternative<std::string*>(target) || is_choice(); }
  bool is_map() const { return holds_one_of<std::map<std::string, int64_t>*, std::map<std::string, double>*>(); }
  bool is_list() const {
    return holds_one_of<std::vector<int64_t>*, std::vector<double>*, std::vector<std::string>*, std::shared_ptr<Records>>();
  }
  std::string text() const;  // the value of a text or a choice, unchanged
  // Returns the path; "" if the option is no path, or its value is empty, a word of the rule or a map.
  std::string path() const;

  // Sets the field of the option to `value`. A UserError names option, place, rule and fix. `source` is the file or
  // "command line".
  void assign(const YamlNode& value, const std::string& source) const;
  // Sets the field from a word of the command line: literally for text options, else parsed as YAML.
  void assign_text(const std::string& text, const std::string& source) const;
  std::string yaml() const;  // the value as YAML on one line; reads back exactly
  std::string type() const;  // the type in words: "whole number, at least 1", "adamw | adam | sgd"

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
  // Sets the heading of the following flags on the help page.
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

// Returns "did you mean 'x'?" for the candidate nearest to `word`; `otherwise` if none is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates, const std::string& otherwise);

}  // namespace ravine

#include "config/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/look_alike.h"
#include "base/text.h"
#include "config/likely_number.h"
#include "config/other_names.h"
#include "config/word_list.h"
#include "config/yaml_json.h"

namespace ravine {
namespace {

using Kind = YamlNode::Kind;

std::string shown(const YamlNode& value) {
  if (value.kind == Kind::list) return "a list";
  if (value.kind == Kind::map) return "a map";
  if (value.kind == Kind::null && value.text.empty()) return "nothing";
  std::string text = value.text.substr(0, 80);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return "'" + text + (value.text.size() > 80 ? "...'" : "'");
}

std::string words(std::vector<std::string> list, const char* between) {
  for (std::string& w : list)
    if (w.empty()) w = "''";
  return fmt::format("{}", fmt::join(list, between));
}

std::string choices_in_words(std::vector<std::string> choices) {
  const bool empty = std::erase(choices, "") > 0;
  return fmt::format("must be one of {}{}", fmt::join(choices, ", "), empty ? ", or empty" : "");
}

// Returns the bounds as text: "0, or at least 1e-12 and at most 10: why".
std::string bounds(const Rule& rule) {
  std::string low = rule.min ? (rule.above ? "above " : "at least ") + number_text(*rule.min) : "";
  std::string high = rule.max ? (rule.below ? "below " : "at most ") + number_text(*rule.max) : "";
  return (rule.zero ? "0, or " : "") + low + (low.empty() || high.empty() ? "" : " and ") + high +
         (rule.why.empty() ? "" : ": " + rule.why);
}

// Assigns one value to one option; errors name the place.
class Assignment {
 public:
  Assignment(const Option& option, const std::string& source) : option_(option), source_(source) {}

  void operator()(bool* out, const YamlNode& v) const {
    if (v.kind != Kind::boolean) wrong(v, "must be true or false", "write true or false");
    check_bounds(v, v.boolean ? 1 : 0);
    *out = v.boolean;
  }
  void operator()(int64_t* out, const YamlNode& v) const {
    refuse_octal(v);
    // 1e6 is a whole number.
    bool whole = v.kind == Kind::real && v.real == std::floor(v.real) && std::abs(v.real) <= 0x1p53;
    if (v.kind == Kind::real && std::isfinite(v.real) && std::abs(v.real) < 1e15 && !whole)
      wrong(v, "must be a whole number",
            v.real > 0 && v.real < 1 ? std::string("a share is not taken here: write a whole number")
                                     : fmt::format("write {:.0f}", std::round(v.real)));
    if (v.kind != Kind::integer && !whole) wrong(v, "must be a whole number" + of_64_bits(v), likely_number(v));
    int64_t value = whole ? static_cast<int64_t>(v.real) : v.integer;
    check_bounds(v, static_cast<double>(value));
    *out = value;
  }
  void operator()(double* out, const YamlNode& v) const {
    if (v.kind != Kind::integer && v.kind != Kind::real) wrong(v, "must be a number", likely_number(v));
    refuse_octal(v);
    if (!std::isfinite(v.real)) wrong(v, "must be a finite number", "write a number");
    check_bounds(v, v.real);
    *out = v.real;
  }
  void operator()(std::optional<double>* out, const YamlNode& v) const {
    const std::string& none = option_.rule.none;
    if (v.kind == Kind::text && v.text == none) return out->reset();
    if (v.kind != Kind::integer && v.kind != Kind::real) {
      const std::string other = v.scalar() ? other_value_advice(option_.name(), v.text) : "";
      wrong(v, fmt::format("must be a number or {}", none), other.empty() ? fmt::format("write {} or a number", none) : other);
    }
    double value = 0;
    (*this)(&value, v);
    *out = value;
  }
  void operator()(const std::shared_ptr<AnyChoice>& out, const YamlNode& v) const { out->set(text_of(v)); }
  void operator()(std::string* out, const YamlNode& v) const {
    const Rule& rule = option_.rule;
    if (rule.map && v.kind == Kind::text && v.text.starts_with('{'))  // a map that is stored as JSON
      return (*this)(out, *load_yaml(v.text, source_ + ", " + option_.name(), false));
    const bool map = rule.map && v.kind == Kind::map;
    std::string text = map ? json_of(v).dump() : text_of(v);
    if (rule.filled && text.empty()) wrong(v, "must not be empty", "write a value or remove the line");
    if (!option_.section.empty() && find_invalid_utf8(text) != std::string::npos)
      wrong(v, "must be UTF-8, config.yaml could not hold it", "rename it");
    if (text.find('\0') != std::string::npos) wrong(v, "must not hold a zero byte", "remove it");
    if (static_cast<int64_t>(text.size()) > rule.max_bytes)
      wrong(v, fmt::format("must have at most {} bytes, has {}", rule.max_bytes, text.size()), "shorten it");
    if (rule.path != Rule::Path::none && !map) {
      const auto path = with_home(text);
      if (!path) wrong(v, kNoHome, kNoHomeFix);
      text = *path;
      check_path(v, text);
    }
    *out = std::move(text);
  }
  template <class T>
  void operator()(std::vector<T>* out, const YamlNode& v) const {
    std::vector<T> list;
    each_item(v, [&](const YamlNode& item) {
      T value;
      (*this)(&value, item);
      list.push_back(std::move(value));
    });
    int64_t count = option_.rule.count;
    if (count >= 0 && static_cast<int64_t>(list.size()) != count)
      wrong(v,
            count == 1 ? std::string("it takes one value") : fmt::format("must have {} elements, has {}", count, list.size()),
            count == 1 ? "give it once" : "write as many");
    *out = std::move(list);
  }
  template <class T>
  void operator()(std::map<std::string, T>* out, const YamlNode& v) const {
    std::map<std::string, T> map;
    if (v.kind != Kind::null) {
      if (v.kind != Kind::map) wrong(v, "must be a map of names to numbers", "write it like {NAME: 4}");
      for (const auto& [key, value] : v.fields) {
        Option named = option_;
        named.key = fmt::format("{}[{}]", option_.key, escaped(key.substr(0, 80)));
        if (key.empty()) wrong(v, "a name must not be empty", "write it like {NAME: 4}");
        if (const size_t colon = key.rfind(':'); value->kind == Kind::null && value->text.empty() && colon != std::string::npos)
          wrong(v, fmt::format("'{}' is a name without a number: a blank stands behind the colon", escaped(key.substr(0, 80))),
                fmt::format("write {{{}: {}}}", escaped(key.substr(0, std::min<size_t>(colon, 80))),
                            escaped(key.substr(colon + 1, 80))));
        Assignment(named, source_)(&map[key], *value);
      }
    }
    *out = std::move(map);
  }
  void operator()(const std::shared_ptr<Records>& records, const YamlNode& v) const {
    records->clear();
    each_item(v, [&](const YamlNode& item) {
      records->append();
      record(records->fields(records->size() - 1), item, records->size());
    });
  }

 private:
  // Returns the text of a scalar; if the rule has choices, it must be one of them.
  std::string text_of(const YamlNode& v) const {
    if (!v.scalar()) wrong(v, "must be a text", "put it in quotes if it holds : [ { or #");
    if (v.kind == Kind::real && !std::isfinite(v.real))
      wrong(v, "must be a text", "write a name, or put it in quotes if this is one");
    std::string text = v.kind == Kind::null ? "" : v.text;
    const std::vector<std::string>& choices = option_.rule.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end())
      wrong(v, choices_in_words(choices), advice_on(text));
    return text;
  }

  // Calls f for each element of a list. Nothing is an empty list; a scalar is a list of one element.
  template <class F>
  void each_item(const YamlNode& v, F&& f) const {
    if (v.kind == Kind::null) return;
    if (v.kind == Kind::text && option_.is_list() && !std::holds_alternative<std::vector<std::string>*>(option_.target) &&
        !std::holds_alternative<std::shared_ptr<Records>>(option_.target) && !numbers_in(v.text).empty())
      wrong(v, "must be a list of numbers", fmt::format("write [{}]", fmt::join(numbers_in(v.text), ",")));
    if (v.kind != Kind::list) return f(v);
    for (const YamlNode::Ptr& item : v.items) f(*item);
  }

  void record(const std::vector<Option>& fields, const YamlNode& item, size_t number) const {
    auto element = [&](const Option& field) {
      Option named = field;
      named.key = fmt::format("{}[{}].{}", option_.name(), number - 1, field.key);
      return named;
    };
    if (item.scalar() && item.kind != Kind::null) {
      for (const Option& field : fields)
        if (field.rule.bare) return element(field).assign(item, source_);
    }
    if (item.kind != Kind::map) wrong(item, "each element must be a map like " + pattern(fields), "write it so");
    if (item.fields.empty())
      wrong(item, "an element says something: " + pattern(fields), "name at least one field or remove the element");
    std::vector<std::string> keys;
    for (const Option& field : fields) keys.push_back(field.key);
    for (const auto& [key, value] : item.fields) {
      auto found = std::find_if(fields.begin(), fields.end(), [&key = key](const Option& f) { return f.key == key; });
      if (found == fields.end())
        throw UserError(fmt::format("unknown field '{}' in {}", key.substr(0, 80), option_.name()), location(*value),
                        "an element is " + pattern(fields),
                        did_you_mean(stands_among(key, " file files name dir folder ") ? "path" : key, keys, "remove it"));
      element(*found).assign(*value, source_);
    }
    for (const Option& field : fields)  // a required field that was not set still has its empty default
      if (field.rule.filled && field.is_text() && field.text().empty())
        wrong(item, fmt::format("an element needs '{}'", field.key), "write it like " + pattern(fields));
  }

  static std::string pattern(const std::vector<Option>& fields) {
    std::string text;
    for (const Option& f : fields) text += (text.empty() ? "{" : ", ") + f.key + ": ..";
    return text + "}";
  }

  // Refuses 010: YAML 1.1 reads it as 8, but most users mean 10.
  void refuse_octal(const YamlNode& v) const {
    const std::string digits = v.text.substr(v.text.find_first_not_of("+-") == 1 ? 1 : 0);
    if (v.kind != Kind::integer || digits.size() < 2 || digits[0] != '0' ||
        digits.find_first_not_of("01234567_") != std::string::npos)
      return;
    wrong(v, fmt::format("a number that begins with 0 counts in eights: this is {}", v.integer),
          fmt::format("write {}{}, or {} if that is meant", v.text[0] == '-' ? "-" : "",
                      digits.substr(std::min(digits.find_first_not_of("0_"), digits.size() - 1)), v.integer));
  }

  // Refuses texts that are unlikely as a path. An existing input is accepted, whatever its name.
  void check_path(const YamlNode& v, const std::string& text) const {
    std::error_code error;
    if (option_.rule.path != Rule::Path::writes && std::filesystem::exists(text, error)) return;
    if (text.size() > 1 && text[0] == '$' &&
        (std::isalpha(static_cast<unsigned char>(text[1])) || text[1] == '_' || text[1] == '{'))
      wrong(v, "is a path with a variable of the shell, which is not filled in here",
            "write the path itself; ~ is the home folder");
    if (option_.rule.path != Rule::Path::writes) return;
    if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      wrong(v, "has a control character: in double quotes of YAML \\ begins an escape",
            "write it in single quotes, or with / between folders");
    for (const char* quote : {"\u201c", "\u201d", "\u2018", "\u2019"})
      if (text.starts_with(quote))
        wrong(v, "begins with a typographic quote, which would be part of the name", "write straight quotes, or none");
  }

  void check_bounds(const YamlNode& v, double x) const {
    const Rule& r = option_.rule;
    if (r.zero && x == 0) return;
    bool low = r.min && (r.above ? !(x > *r.min) : !(x >= *r.min)), high = r.max && (r.below ? !(x < *r.max) : !(x <= *r.max));
    if (high && !r.reason.empty())
      wrong(v, r.reason, fmt::format("write {} or remove it", option_.is_bool() ? "false" : number_text(*r.max)));
    const bool percent = high && *r.max == 1 && x <= 100;
    if (percent) wrong(v, "must be " + bounds(r), "a share of one: write " + number_text(x / 100));
    if (low || high) wrong(v, "must be " + bounds(r), low ? "give a larger value" : "give a smaller value");
  }

  // Returns the advice for a text that is no choice.
  std::string advice_on(const std::string& text) const {
    const std::vector<std::string>& choices = option_.rule.choices;
    const std::string type = other_type_name(text);
    if (!type.empty() && std::find(choices.begin(), choices.end(), type) != choices.end())
      return fmt::format("here it is {}", type);
    if (std::string other = other_value_advice(option_.name(), text); !other.empty()) return other;
    for (const std::string& choice : choices)
      if (in_small_letters(choice) == in_small_letters(text)) return fmt::format("did you mean '{}'?", choice);
    std::vector<std::string> longer;  // choices that begin with the text
    for (const std::string& choice : choices)
      if (text.size() >= 3 && choice.starts_with(in_small_letters(text))) longer.push_back("'" + choice + "'");
    if (!longer.empty()) return fmt::format("did you mean {}?", fmt::join(longer, " or "));
    return did_you_mean(text, choices, "write one of them");
  }

  static std::string of_64_bits(const YamlNode& v) {
    return v.kind == Kind::real && std::isfinite(v.real) && std::abs(v.real) > 0x1p53 ? " of at most 64 bits" : "";
  }
  // Returns the advice for a number in quotes, with a unit, or with commas.
  std::string likely_number(const YamlNode& v) const {
    if (v.kind != Kind::text) return "write a number";
    const Kind plain = resolve_scalar(v.text).kind;
    if (plain == Kind::integer || plain == Kind::real) return "remove the quotes";
    if (!look_alike(v.text).empty()) return look_alike(v.text) + ": write " + with_plain_characters(v.text);
    if (const std::string other = other_value_advice(option_.name(), v.text); !other.empty()) return other;
    const bool whole =
        std::holds_alternative<int64_t*>(option_.target) || std::holds_alternative<std::vector<int64_t>*>(option_.target);
    if (const std::string list = likely_range(option_, v.text); !list.empty()) return "write " + list;
    const std::string likely = plain_number(option_, v.text);
    if (likely.empty()) return "write a number";
    const YamlNode number = resolve_scalar(likely);
    if (whole && number.kind == Kind::real && number.real != std::floor(number.real)) return "write a whole number";
    return "write " + likely;
  }
  std::string location(const YamlNode& v) const { return v.line > 0 ? fmt::format("{}:{}", source_, v.line) : source_; }
  [[noreturn]] void wrong(const YamlNode& v, const std::string& rule, const std::string& fix) const {
    throw UserError(fmt::format("{} is {}", option_.name(), shown(v)), location(v), rule, fix);
  }

  const Option& option_;
  const std::string& source_;
};

template <class T>
std::string list_text(const std::vector<T>& list, std::string (*one)(const T&)) {
  std::vector<std::string> parts;
  for (const T& x : list) parts.push_back(one(x));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

template <class T>
std::string map_text(const std::map<std::string, T>& map, std::string (*one)(const T&)) {
  std::vector<std::string> parts;
  for (const auto& [key, x] : map) parts.push_back(fmt::format("{}: {}", yaml_text(key), one(x)));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string record_text(const std::vector<Option>& fields) {
  std::string text;
  for (const Option& f : fields) {
    const auto* number = std::get_if<std::optional<double>*>(&f.target);
    if (number && !**number) continue;  // not set
    text += fmt::format("{}{}: {}", text.empty() ? "{" : ", ", f.key, f.yaml());
  }
  return text + "}";
}

}  // namespace

std::optional<std::string> with_home(const std::string& path) {
  if (!path.starts_with('~')) return path;
  const size_t end = std::min(path.find('/'), path.size());
  const char* home = end == 1 ? std::getenv("HOME") : nullptr;
  std::string folder = home ? home : "";
  if (folder.empty()) {
    const passwd* user = end == 1 ? ::getpwuid(::getuid()) : ::getpwnam(path.substr(1, end - 1).c_str());
    if (user) folder = user->pw_dir;
  }
  if (folder.empty()) return std::nullopt;
  return folder + path.substr(end);
}

Rule operator&(Rule a, const Rule& b) {
  if (b.min) a.min = b.min, a.above = b.above;
  if (b.max) a.max = b.max, a.below = b.below;
  if (!b.choices.empty()) a.choices = b.choices;
  if (!b.none.empty()) a.none = b.none;
  if (b.count >= 0) a.count = b.count;
  a.zero |= b.zero;
  if (!b.why.empty()) a.why = b.why;
  if (b.max_bytes != Rule{}.max_bytes) a.max_bytes = b.max_bytes;
  a.filled |= b.filled;
  a.bare |= b.bare;
  a.lone |= b.lone;
  a.map |= b.map;
  a.required |= b.required;
  a.positional |= b.positional;
  a.named |= b.named;
  if (!b.reason.empty()) a.reason = b.reason;
  if (!b.same_as.empty()) a.same_as = b.same_as;
  if (!b.metavar.empty()) a.metavar = b.metavar;
  if (b.on_resume != OnResume::undecided) a.on_resume = b.on_resume;
  if (b.path != Rule::Path::none) a.path = b.path;
  if (!b.words.empty()) a.words = b.words;
  a.common |= b.common;
  if (!b.detail.empty()) a.detail = b.detail;
  return a;
}

void Option::assign(const YamlNode& value, const std::string& source) const {
  std::visit([&](const auto& out) { Assignment(*this, source)(out, value); }, target);
}

void Option::assign_text(const std::string& text, const std::string& source) const {
  if (!is_text() && !std::holds_alternative<std::vector<std::string>*>(target)) {
    assign(*load_yaml(text, source, false), source);
    return;
  }
  YamlNode literal;
  literal.kind = Kind::text;
  literal.text = text;
  assign(literal, source);
}

std::string Option::text() const {
  return is_choice() ? std::get<std::shared_ptr<AnyChoice>>(target)->text() : *std::get<std::string*>(target);
}

std::string Option::path() const {
  const auto* text = std::get_if<std::string*>(&target);
  if (!text || rule.path == Rule::Path::none || (rule.map && (*text)->starts_with('{'))) return "";
  return std::find(rule.words.begin(), rule.words.end(), **text) == rule.words.end() ? **text : "";
}

std::string Option::yaml() const {
  struct Writer {
    std::string operator()(bool* v) const { return *v ? "true" : "false"; }
    std::string operator()(int64_t* v) const { return std::to_string(*v); }
    std::string operator()(double* v) const { return yaml_real(*v); }
    std::string operator()(std::optional<double>* v) const { return yaml_real(v->value()); }
    std::string operator()(std::string* v) const { return yaml_text(*v); }
    std::string operator()(std::vector<int64_t>* v) const {
      return list_text<int64_t>(*v, [](const int64_t& x) { return std::to_string(x); });
    }
    std::string operator()(std::vector<double>* v) const {
      return list_text<double>(*v, [](const double& x) { return yaml_real(x); });
    }
    std::string operator()(std::vector<std::string>* v) const {
      return list_text<std::string>(*v, [](const std::string& x) { return yaml_text(x); });
    }
    std::string operator()(std::map<std::string, int64_t>* v) const {
      return map_text<int64_t>(*v, [](const int64_t& x) { return std::to_string(x); });
    }
    std::string operator()(std::map<std::string, double>* v) const {
      return map_text<double>(*v, [](const double& x) { return yaml_real(x); });
    }
    std::string operator()(const std::shared_ptr<AnyChoice>& v) const { return yaml_text(v->text()); }
    std::string operator()(const std::shared_ptr<Records>& v) const {
      std::vector<std::string> parts;
      for (size_t i = 0; i < v->size(); ++i) parts.push_back(record_text(v->fields(i)));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
  };
  if (const auto* text = std::get_if<std::string*>(&target); text && rule.map && (*text)->starts_with('{'))
    return flow_yaml(parse_json(**text, name()));
  const auto* optional = std::get_if<std::optional<double>*>(&target);
  if (optional && !**optional) return yaml_text(rule.none);
  const std::string text = std::visit(Writer{}, target);
  const auto* numbers = std::get_if<std::vector<double>*>(&target);
  return rule.lone && numbers && (*numbers)->size() == 1 ? text.substr(1, text.size() - 2) : text;
}

namespace {

// The type of an option in words.
struct KindName {
  const char* operator()(const bool*) const { return "true or false"; }
  const char* operator()(const int64_t*) const { return "whole number"; }
  const char* operator()(const double*) const { return "number"; }
  const char* operator()(const std::optional<double>*) const { return "number"; }
  const char* operator()(const std::string*) const { return "text"; }
  const char* operator()(const std::vector<int64_t>*) const { return "list of whole numbers"; }
  const char* operator()(const std::vector<double>*) const { return "list of numbers"; }
  const char* operator()(const std::vector<std::string>*) const { return "list of texts"; }
  const char* operator()(const std::shared_ptr<Records>&) const { return "list"; }
  const char* operator()(const std::shared_ptr<AnyChoice>&) const { return "choice"; }
  const char* operator()(const std::map<std::string, int64_t>*) const { return "map of whole numbers"; }
  const char* operator()(const std::map<std::string, double>*) const { return "map of numbers"; }
};

}  // namespace

std::string Option::type() const {
  std::string text = rule.lone ? "number or list of numbers" : std::visit(KindName{}, target);
  if (!rule.choices.empty()) {
    text = words(rule.choices, " | ");
  } else if (!rule.none.empty()) {
    text = rule.none + ", or a " + text;
  } else if (!rule.metavar.empty() && is_text()) {
    text = rule.metavar;
  }
  if (rule.count >= 0) text = fmt::format("{} {}", rule.count, text.substr(text.find(' ') + 4));  // "2 numbers"
  if (!rule.reason.empty()) return text + "; " + rule.reason;
  if (rule.min || rule.max) text += (is_list() || is_map() ? ", each " : ", ") + bounds(rule);
  return text;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates, const std::string& otherwise) {
  std::string best = word.empty() || word.size() > 64 ? "" : nearest(word, candidates);
  return best.empty() ? otherwise : "did you mean '" + best + "'?";
}

}  // namespace ravine

#include "dialects/dialect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "config/yaml_json.h"

namespace ravine {
namespace {

bool fits(KeyType type, const Json& v) {
  const auto each = [&](KeyType of) {
    return v.is_array() && std::all_of(v.begin(), v.end(), [&](const Json& x) { return fits(of, x); });
  };
  switch (type) {
    case KeyType::on:
    case KeyType::boolean:
      return v.is_boolean();
    case KeyType::whole:
      return v.is_number_integer();
    case KeyType::number:
      return v.is_number();
    case KeyType::text:
      return v.is_string();
    case KeyType::wholes:
      return each(KeyType::whole);
    case KeyType::numbers:
      return each(KeyType::number);
    case KeyType::texts:
      return each(KeyType::text);
    case KeyType::map:
      return v.is_object();
    case KeyType::any:
      break;
  }
  return true;
}

std::string shown_value(const Json& v) {
  std::string text = v.is_string() ? v.get<std::string>() : v.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 80 ? text.substr(0, 80) + "..." : text;
}

std::vector<std::string> keys_of(const DialectTable& table) {
  std::vector<std::string> keys;
  for (const DialectKey& row : table)
    if (row.status != KeyStatus::refused) keys.push_back(row.key);
  return keys;
}

// Returns a fix for an unknown key: the key that it abbreviates, or the nearest key.
std::string nearest(const std::string& key, const DialectTable& table) {
  const std::vector<std::string> keys = keys_of(table);
  std::vector<std::string> longer;
  for (const std::string& k : keys)
    if (key.size() > 4 && k.starts_with(key)) longer.push_back(k);
  if (longer.size() == 1) return fmt::format("did you mean '{}'?", longer[0]);
  return did_you_mean(key, keys, "leave it out");
}

}  // namespace

std::string_view words_of(KeyType type) {
  switch (type) {
    case KeyType::on:
      return "a switch, without value";
    case KeyType::boolean:
      return "true or false";
    case KeyType::whole:
      return "a whole number";
    case KeyType::number:
      return "a number";
    case KeyType::text:
      return "a text";
    case KeyType::wholes:
      return "whole numbers";
    case KeyType::numbers:
      return "numbers";
    case KeyType::texts:
      return "texts";
    case KeyType::map:
      return "a map";
    case KeyType::any:
      break;
  }
  return "a value";
}

std::string_view name(KeyStatus status) {
  switch (status) {
    case KeyStatus::used:
      return "used";
    case KeyStatus::inert:
      return "inert";
    case KeyStatus::refused:
      return "refused";
    case KeyStatus::standard:
      return "default";
    case KeyStatus::derived:
      break;
  }
  return "derived";
}

DialectKey copied(std::string key, KeyType type, std::string option, Json standard) {
  DialectKey row = renamed(std::move(key), type, std::move(option), std::move(standard));
  row.copied = true;
  return row;
}

DialectKey renamed(std::string key, KeyType type, std::string option, Json standard) {
  return {.key = std::move(key), .type = type, .option = std::move(option), .standard = std::move(standard), .same = true};
}

DialectKey used(std::string key, KeyType type, std::string option, Json standard, std::vector<std::string> choices) {
  return {.key = std::move(key),
          .type = type,
          .option = std::move(option),
          .standard = std::move(standard),
          .choices = std::move(choices)};
}

DialectKey inert(std::string key, KeyType type, std::string reason, Json standard) {
  return {.key = std::move(key),
          .type = type,
          .status = KeyStatus::inert,
          .reason = std::move(reason),
          .standard = std::move(standard)};
}

DialectKey refused(std::string key, KeyType type, std::string reason, std::string fix) {
  return {
      .key = std::move(key), .type = type, .status = KeyStatus::refused, .reason = std::move(reason), .fix = std::move(fix)};
}

DialectTable joined(std::vector<DialectTable> tables) {
  DialectTable all;
  for (DialectTable& table : tables)
    for (DialectKey& row : table) {
      require(std::none_of(all.begin(), all.end(), [&](const DialectKey& r) { return r.key == row.key; }),
              "dialect: {} stands in the table twice", row.key);
      all.push_back(std::move(row));
    }
  return all;
}

Translation::Translation(DialectTable table, std::string program) : program_(std::move(program)) {
  for (DialectKey& row : table) entries_.push_back({std::move(row), nullptr, "", nullptr, false});
}

const Translation::Entry& Translation::entry(const std::string& key) const {
  const auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.row.key == key; });
  require(it != entries_.end(), "dialect: {} has no row {}", program_, key);
  return *it;
}

Translation::Entry& Translation::entry(const std::string& key) {
  return const_cast<Entry&>(static_cast<const Translation&>(*this).entry(key));
}

bool Translation::has(const std::string& key) const { return !entry(key).value.is_null(); }

bool Translation::is_on(const std::string& key) const { return value(key).is_boolean() && value(key).get<bool>(); }

const Json& Translation::value(const std::string& key) const {
  const Entry& e = entry(key);
  return e.value.is_null() ? e.row.standard : e.value;
}

int64_t Translation::whole(const std::string& key) const {
  const Json& v = value(key);
  return v.is_number() ? v.get<int64_t>() : 0;
}

double Translation::number(const std::string& key) const {
  const Json& v = value(key);
  return v.is_number() ? v.get<double>() : 0;
}

std::string Translation::text(const std::string& key) const {
  const Json& v = value(key);
  return v.is_string() ? v.get<std::string>() : "";
}

std::string Translation::source(const std::string& key) const { return has(key) ? entry(key).source : "default"; }

std::vector<std::string> Translation::given() const {
  std::vector<std::string> keys;
  for (const size_t i : given_) keys.push_back(entries_[i].row.key);
  return keys;
}

void Translation::set(const std::string& option, const Json& value, const std::string& from) {
  Entry& e = entry(from);
  if (e.row.status == KeyStatus::used && e.row.option.find(option) == std::string::npos)
    e.row.option += (e.row.option.empty() ? "" : ", ") + option;
  settings_.push_back({option, flow_yaml(value), has(from) ? fmt::format("{}, {}", e.source, from) : program_ + "'s default"});
}

void Translation::set_option(const std::string& option, const Json& value, const std::string& source) {
  settings_.push_back({option, flow_yaml(value), source});
}

void Translation::becomes(const std::string& key, KeyStatus status, const std::string& option_or_reason) {
  DialectKey& row = entry(key).row;
  row.status = status;
  (status == KeyStatus::used ? row.option : row.reason) = option_or_reason;
}

void Translation::agrees(const std::string& key, const std::string& reason) {
  becomes(key, KeyStatus::inert, reason);
  entry(key).agrees = true;
}

void Translation::shows(const std::string& key, Json value) { entry(key).shown = std::move(value); }

void Translation::derive(const std::string& key, Json value) {
  derived_.push_back({key, std::move(value), KeyStatus::derived, "", ""});
}

void Translation::refuse(const std::string& key, const std::string& what, const std::string& rule, const std::string& fix) {
  refusals_.push_back({key, what, source(key), rule, fix});
}

void Translation::refuse(KeyRefusal refusal) { refusals_.push_back(std::move(refusal)); }

void Translation::notice(std::string text) { notices_.push_back(std::move(text)); }

std::vector<ExplainedKey> Translation::lines() const {
  std::vector<ExplainedKey> out;
  for (const size_t i : given_) {
    const Entry& e = entries_[i];
    const bool used = e.row.status == KeyStatus::used;
    ExplainedKey line{e.row.key, e.shown.is_null() ? e.value : e.shown, e.row.status, used ? e.row.option : "", e.row.reason};
    if (used) line.reason.clear();
    line.agrees = e.agrees && e.row.status == KeyStatus::inert;
    for (const KeyRefusal& r : refusals_)
      if (r.key == e.row.key) line.status = KeyStatus::refused, line.option.clear(), line.reason = r.rule;
    out.push_back(std::move(line));
  }
  for (const KeyRefusal& r : refusals_)  // refusals of keys that are not given
    if (std::none_of(out.begin(), out.end(), [&](const ExplainedKey& line) { return line.key == r.key; }))
      out.push_back({r.key, nullptr, KeyStatus::refused, "", r.rule});
  out.insert(out.end(), derived_.begin(), derived_.end());
  return out;
}

Translation translate(DialectTable table, const std::vector<GivenKey>& given, const std::string& program) {
  const DialectTable rows = table;
  Translation t(std::move(table), program);
  for (const GivenKey& g : given) {
    const auto it =
        std::find_if(t.entries_.begin(), t.entries_.end(), [&](const Translation::Entry& e) { return e.row.key == g.key; });
    if (it == t.entries_.end()) {
      t.refusals_.push_back({g.key, fmt::format("unknown {}", g.key), g.source, fmt::format("{} has no such key", program),
                             nearest(g.key, rows)});
      continue;
    }
    const auto at = static_cast<size_t>(it - t.entries_.begin());
    if (std::find(t.given_.begin(), t.given_.end(), at) == t.given_.end()) t.given_.push_back(at);
    it->source = g.source;
    const DialectKey& row = it->row;
    it->value = g.value;
    if (row.status == KeyStatus::refused) {
      t.refusals_.push_back({g.key, g.key, g.source, row.reason, row.fix});
    } else if (!fits(row.type, g.value)) {
      it->value = nullptr;
      const std::string text = shown_value(g.value);  // a text has quotes, since they may be the mistake
      t.refusals_.push_back({g.key, fmt::format("{} is {}", g.key, g.value.is_string() ? "'" + text + "'" : text), g.source,
                             fmt::format("it takes {}", words_of(row.type)), "correct the value"});
    } else if (!row.choices.empty() && g.value.is_string() &&
               std::find(row.choices.begin(), row.choices.end(), g.value.get<std::string>()) == row.choices.end()) {
      t.refusals_.push_back({g.key, fmt::format("{} is {}", g.key, shown_value(g.value)), g.source,
                             fmt::format("it is one of {}", fmt::join(row.choices, ", ")),
                             did_you_mean(g.value.get<std::string>(), row.choices, "use one of them")});
    }
  }
  for (const size_t i : t.given_)
    if (const Translation::Entry& e = t.entries_[i]; e.row.copied && !e.value.is_null())
      t.set(e.row.option, e.value, e.row.key);
  return t;
}

void refuse_all(const Translation& translation) { refuse_keys(translation.refusals()); }

void refuse_keys(const std::vector<KeyRefusal>& all) {
  if (all.empty()) return;
  if (all.size() == 1) throw UserError(all[0].what, all[0].where, all[0].rule, all[0].fix);
  std::vector<std::string> places, texts;
  for (const KeyRefusal& r : all) {
    if (std::find(places.begin(), places.end(), r.where) == places.end()) places.push_back(r.where);
    texts.push_back(fmt::format("{}: {}, {}", r.what, r.rule, r.fix));
  }
  throw UserError(fmt::format("{} keys are refused", all.size()), fmt::format("{}", fmt::join(places, ", ")),
                  fmt::format("{}", fmt::join(texts, "; ")), "correct them all");
}

Config config_of(const Translation& translation, const std::vector<Setting>& over) {
  refuse_all(translation);
  std::vector<Setting> settings = translation.settings();
  settings.insert(settings.end(), over.begin(), over.end());
  return load_config("", settings);
}

std::string explanation(const Translation& translation) {
  std::string text;
  for (const ExplainedKey& line : translation.lines()) {
    const Json json = {{"key", line.key},
                       {"value", line.value},
                       {"status", name(line.status)},
                       {"option", line.option},
                       {"reason", line.reason}};
    text += json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return text;
}

}  // namespace ravine

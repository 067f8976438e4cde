// Makes table rows from the flags of the Trainer and the keys of a DeepSpeed config.
#include <fmt/format.h>

#include "base/text.h"
#include "dialects/deepspeed_keys.h"
#include "dialects/key_page.h"
#include "dialects/trainer_flags.h"

namespace ravine {
namespace {

KeyType type_of(DeepSpeedValue type) {
  switch (type) {
    case DeepSpeedValue::flag:
      return KeyType::boolean;
    case DeepSpeedValue::whole:
    case DeepSpeedValue::size:
      return KeyType::whole;
    case DeepSpeedValue::number:
      return KeyType::number;
    case DeepSpeedValue::text:
      return KeyType::text;
    case DeepSpeedValue::numbers:
      return KeyType::numbers;
    case DeepSpeedValue::words:
      return KeyType::texts;
    case DeepSpeedValue::any:
      break;
  }
  return KeyType::any;
}

DialectKey row_of(std::string key, DeepSpeedValue type, DeepSpeedFate fate, std::string_view effect, std::string_view standard,
                  std::string_view choices) {
  DialectKey row = used(std::move(key), type_of(type), std::string(effect));
  for (const std::string& choice : split(choices, ' '))
    if (!choice.empty()) row.choices.push_back(choice);
  row.same = fate == DeepSpeedFate::renamed;
  if (is_used(fate)) return row;
  row.status = fate == DeepSpeedFate::refused ? KeyStatus::refused : KeyStatus::inert;
  row.reason =
      fate == DeepSpeedFate::refused_if_on ? fmt::format("where it is {}; else refused: {}", standard, effect) : effect;
  return row;
}

KeySection class_section(const char* section, const DeepSpeedClass& c) {
  KeySection out{fmt::format("`{}.params` of {}", section, c.name), {}};
  for (const DeepSpeedParam& p : c.params) {
    DialectKey row = used(fmt::format("{}.params.{}", section, p.key), KeyType::any, p.option);
    if (p.option.empty()) {
      row.status = KeyStatus::inert;
      row.reason = p.must_be_default ? fmt::format("where it is {}; else refused: {}", p.fallback, p.reason) : p.reason;
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace

std::vector<KeySection> trainer_key_sections() {
  std::vector<KeySection> sections{{"Flags", {}}, {"Keys of a DeepSpeed config", {}}};
  for (const TrainerFlag& f : trainer_flags())
    sections[0].rows.push_back(
        row_of("--" + std::string(f.name), f.type, f.fate, f.effect, f.fallback.empty() ? "not given" : f.fallback, ""));
  for (const DeepSpeedKey& k : deepspeed_keys())
    sections[1].rows.push_back(row_of(std::string(k.key), k.type, k.fate, k.effect, "false", k.choices));
  for (const DeepSpeedClass& c : deepspeed_optimizers()) sections.push_back(class_section("optimizer", c));
  for (const DeepSpeedClass& c : deepspeed_schedulers()) sections.push_back(class_section("scheduler", c));
  return sections;
}

}  // namespace ravine

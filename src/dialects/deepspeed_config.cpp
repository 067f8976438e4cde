#include "dialects/deepspeed_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "config/option.h"

namespace ravine {
namespace {

using Kind = YamlNode::Kind;

bool is_number(const YamlNode& v) { return v.kind == Kind::integer || v.kind == Kind::real; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// Returns the rule that the value breaks; "" if it fits the key.
std::string broken_rule(const DeepSpeedKey& k, const YamlNode& v) {
  const auto bounds = [&]() -> std::string {
    if (v.real >= k.min && v.real <= k.max) return "";
    if (k.max >= 1e300) return fmt::format("it must be at least {}", k.min);
    return fmt::format("it must be between {} and {}", k.min, k.max);
  };
  switch (k.type) {
    case DeepSpeedValue::flag:
      return v.kind == Kind::boolean ? "" : "it must be true or false";
    case DeepSpeedValue::whole:
      if (!is_number(v) || std::floor(v.real) != v.real) return "it must be a whole number";
      return bounds();
    case DeepSpeedValue::size:
      return is_number(v) ? bounds() : "it must be a number of elements";
    case DeepSpeedValue::number:
      return is_number(v) ? bounds() : "it must be a number";
    case DeepSpeedValue::text: {
      if (v.kind != Kind::text) return "it must be a text";
      if (k.choices.empty() || k.choices.find(" " + lower(v.text) + " ") != std::string_view::npos) return "";
      std::string words;
      for (const std::string& w : split(k.choices.substr(1, k.choices.size() - 2), ' '))
        words += (words.empty() ? "" : ", ") + w;
      return "it must be one of " + words;
    }
    case DeepSpeedValue::numbers:
    case DeepSpeedValue::words:
    case DeepSpeedValue::any:
      return "";
  }
  return "";
}

class KeyTaker {
 public:
  KeyTaker(const std::string& name, bool (*compared)(std::string_view), DeepSpeedConfig& out, std::vector<KeyRefusal>& refusals,
           std::vector<std::string>& notices)
      : name_(name), compared_(compared), out_(out), refusals_(refusals), notices_(notices) {}

  void take(const YamlNode& map, const std::string& written, const std::string& key) {
    for (const auto& [field, value] : map.fields) {
      const std::string name = written.empty() ? field : written + "." + field;
      std::string full_key = key.empty() ? field : key + "." + field;
      if (full_key == "bfloat16") full_key = "bf16";
      if (full_key == "zero_optimization.aio") {
        notices_.push_back(fmt::format(
            "aio inside zero_optimization ({}:{}): DeepSpeed reads it at top level only; it is taken as if it stood there",
            name_, value->line));
        full_key = "aio";
      }
      if (value->kind == Kind::map && !value->fields.empty())
        take(*value, name, full_key);
      else
        leaf(name, full_key, value);
    }
  }

 private:
  void leaf(const std::string& written, const std::string& key, const YamlNode::Ptr& value) {
    DeepSpeedGiven given{written, key, value, fmt::format("{}:{}", name_, value->line)};
    given.automatic = value->kind == Kind::text && value->text == "auto";
    const auto refuse = [&](const std::string& why) { refusals_.push_back(key_refusal(written, given.source, why)); };
    const bool of_class = key.starts_with("optimizer.params.") || key.starts_with("scheduler.params.");
    const DeepSpeedKey* known = of_class ? nullptr : find_deepspeed_key(key);
    if ((value->kind == Kind::map && is_section(key)) || (value->kind == Kind::null && may_be_null(key) && is_section(key)))
      return note_empty(std::move(given));
    if (!known && is_section(key))
      return refuse(fmt::format("it is {}, it must be an object; write {{..}}", written_value(*value)));
    if (!known && !of_class) {
      refusals_.push_back(
          key_refusal(written.substr(0, 80), given.source, "unknown key; " + nearest_deepspeed_key(key.substr(0, 80))));
      return;
    }
    if (known && !given.automatic && value->kind != Kind::null &&
        !(value->kind == Kind::map && known->type == DeepSpeedValue::any)) {
      if (known->fate == DeepSpeedFate::refused) return refuse(std::string(known->effect));
      const std::string rule = broken_rule(*known, *value);
      if (!rule.empty() && !(value->kind == Kind::text && compared_(key)))  // fill_auto() refuses it with both values
        return refuse(fmt::format("it is {}, {}", written_value(*value), rule));
      if (known->fate == DeepSpeedFate::refused_if_on && value->kind == Kind::boolean && value->boolean)
        return refuse(fmt::format("it is true: {}", known->effect));
    }
    if (value->kind == Kind::null && key == "zero_optimization.stage")
      return refuse("it is null, it must be 0, 1, 2 or 3; write the number, or leave the key out");
    if (value->kind == Kind::null && known && key.starts_with("zero_optimization.") && !may_be_null(key))
      return refuse("it is null, and DeepSpeed does not begin with that; write a value, or leave the key out");
    if (value->kind == Kind::null) given.left_to_default = true;
    out_.keys.push_back(std::move(given));
  }

  // Optional fields of DeepSpeedZeroConfig and of its offload sections.
  static bool may_be_null(std::string_view key) {
    constexpr std::string_view kOptional[] = {"offload_param",
                                              "offload_optimizer",
                                              "overlap_comm",
                                              "cpu_offload",
                                              "cpu_offload_param",
                                              "cpu_offload_use_pin_memory",
                                              "offload_param.nvme_path",
                                              "offload_optimizer.nvme_path"};
    constexpr std::string_view kZero = "zero_optimization.";
    return key.starts_with(kZero) &&
           std::find(std::begin(kOptional), std::end(kOptional), key.substr(kZero.size())) != std::end(kOptional);
  }

  static bool is_section(const std::string& key) {
    return std::any_of(deepspeed_keys().begin(), deepspeed_keys().end(),
                       [&](const DeepSpeedKey& k) { return k.key.starts_with(key + "."); });
  }

  void note_empty(DeepSpeedGiven given) {
    given.left_to_default = true;
    out_.keys.push_back(std::move(given));
  }

  const std::string& name_;
  bool (*compared_)(std::string_view);
  DeepSpeedConfig& out_;
  std::vector<KeyRefusal>& refusals_;
  std::vector<std::string>& notices_;
};

}  // namespace

std::string written_value(const YamlNode& v) {
  switch (v.kind) {
    case Kind::null:
      return "None";
    case Kind::boolean:
      return v.boolean ? "True" : "False";
    case Kind::text:
      return "\"" + v.text.substr(0, 80) + "\"";
    case Kind::map:
      return "{..}";
    case Kind::list: {
      std::string out = "[";
      for (const auto& item : v.items) out += (out.size() > 1 ? ", " : "") + written_value(*item);
      return out.substr(0, 200) + "]";
    }
    case Kind::integer:
    case Kind::real:
      return v.text;
  }
  return "";
}

DeepSpeedGiven* DeepSpeedConfig::find(std::string_view key) {
  for (DeepSpeedGiven& g : keys)
    if (g.key == key) return &g;
  return nullptr;
}

const DeepSpeedGiven* DeepSpeedConfig::find(std::string_view key) const {
  return const_cast<DeepSpeedConfig*>(this)->find(key);
}

const YamlNode* DeepSpeedConfig::value(std::string_view key) const {
  const DeepSpeedGiven* g = find(key);
  return !g || g->left_to_default || g->value->kind == Kind::null ? nullptr : g->value.get();
}

bool DeepSpeedConfig::on(std::string_view key) const {
  const YamlNode* v = value(key);
  return v && v->boolean;
}

double DeepSpeedConfig::number(std::string_view key, double otherwise) const {
  const YamlNode* v = value(key);
  return v && is_number(*v) ? v->real : otherwise;
}

std::string DeepSpeedConfig::text(std::string_view key, const std::string& otherwise) const {
  const YamlNode* v = value(key);
  return v && v->kind == Kind::text ? lower(v->text) : otherwise;
}

bool DeepSpeedConfig::has_section(std::string_view section) const {
  const std::string inside = std::string(section) + ".";
  return std::any_of(keys.begin(), keys.end(),
                     [&](const DeepSpeedGiven& g) { return g.key == section || g.key.starts_with(inside); });
}

int64_t DeepSpeedConfig::stage() const {
  if (on("zero_optimization")) return 1;
  return static_cast<int64_t>(number("zero_optimization.stage", 0));
}

KeyRefusal key_refusal(const std::string& key, const std::string& where, const std::string& why) {
  const size_t fix = why.rfind("; ");
  return {key, key, where, why.substr(0, fix), fix == std::string::npos ? "correct it" : why.substr(fix + 2)};
}

DeepSpeedConfig take_deepspeed_keys(const YamlNode& root, const std::string& name, bool (*compared)(std::string_view key),
                                    std::vector<KeyRefusal>& refusals, std::vector<std::string>& notices) {
  DeepSpeedConfig out;
  KeyTaker(name, compared, out, refusals, notices).take(root, "", "");
  return out;
}

}  // namespace ravine

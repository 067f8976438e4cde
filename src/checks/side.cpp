#include "checks/side.h"

#include <filesystem>

#include "base/error.h"
#include "config/count_steps.h"
#include "runs/open.h"
#include "runs/vocabulary.h"

namespace ravine {
namespace {

// Builds the model of a side without weights. A model whose vocabulary is not known gets a small one, so that the names
// of its parameters are known.
void build_model(Side& s) {
  if (s.config.model.path.empty() && s.config.model.config.empty()) return;
  namespace fs = std::filesystem;
  try {
    s.model = requested_model_config(s.config);
    if (!s.config.model.path.empty())
      s.model_file = (fs::path(s.config.model.path) / "config.json").string();
    else if (!is_inline(s.config.model.config))
      s.model_file = s.config.model.config;
  } catch (const UserError& e) {
    s.notes.push_back(fmt::format("the model is not known: {}", e.what()));
    return;
  }
  Config c = s.config;
  std::error_code error;
  if (!c.model.tokenizer.empty() && !fs::exists(c.model.tokenizer, error)) {
    s.notes.push_back(fmt::format("the tokenizer {} is not here", c.model.tokenizer));
    c.model.tokenizer.clear();
  }
  if (!s.model.contains("vocab_size") && s.model_file.empty() && c.model.tokenizer.empty()) {
    constexpr int64_t kRows = 128;
    Json model = s.model;
    model["vocab_size"] = kRows;
    c.model.config = model.dump();
    s.rows_known = false;
  }
  const auto build = [&]() -> std::string {
    try {
      s.built = open_run_model(c);
      return "";
    } catch (const UserError& e) {
      return e.what();
    }
  };
  std::string problem = build();
  if (problem.empty()) return;
  // Options beside config.json may be the reason: weights that are not here, patterns of another model.
  c.model.config = s.model.dump(), c.model.path.clear(), c.model.tokenizer.clear(), c.model.vocabulary = 0;
  c.model.tie = Tie::stored, c.log.local_norms.clear();
  if (build().empty()) return;
  s.notes.push_back(fmt::format("the model cannot be built: {}", problem));
}

}  // namespace

std::string_view name(Program program) {
  switch (program) {
    case Program::megatron:
      return "Megatron";
    case Program::mindformers:
      return "MindFormers";
    case Program::trainer:
      return "Transformers";
    case Program::ravine:
      break;
  }
  return "Ravine";
}

const Json& Side::value(const std::string& key) const {
  static const Json kNone;
  const auto found = given.find(key);
  return found == given.end() ? kNone : found->second.value;
}

std::string Side::text(const std::string& key) const {
  const Json& v = value(key);
  return v.is_string() ? v.get<std::string>() : "";
}

std::string Side::where(const std::string& option, const std::vector<std::string>& keys, const std::string& field) const {
  for (const std::string& key : keys)
    if (const auto found = given.find(key); found != given.end()) return fmt::format("{}, {}", found->second.where, key);
  const std::string standard = fmt::format("default of {}", name(program));
  if (!field.empty() && !model_file.empty()) return model.contains(field) ? fmt::format("{}, {}", model_file, field) : standard;
  const auto source = config.sources.find(option);
  if (program != Program::ravine) {
    if (source == config.sources.end() || source->second.ends_with("default") || option == "model.config") return standard;
    return source->second;
  }
  if (!field.empty() && !model.contains(field)) return standard;
  if (source == config.sources.end()) return standard;
  return fmt::format("{}, {}", source->second, field.empty() ? option : "model.config." + field);
}

Side load_side(const std::string& given, const SideFacts& facts) {
  Side side = read_side(given, facts);
  side.path = given;
  if (side.config.train.epochs > 0 || side.config.schedule.classes.warmup_ratio) count_steps(side.config, facts.samples);
  if (side.program == Program::ravine)
    side.steps_known = side.config.train.epochs <= 0;
  else if (!side.config.sources.contains("train.steps"))
    side.steps_known = false;
  build_model(side);
  return side;
}

}  // namespace ravine

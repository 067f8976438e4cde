#include "runs/run_record.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/ranges.h>

#include "base/cut_text.h"
#include "base/error.h"
#include "config/yaml.h"
#include "files/same_path.h"
#include "io/checkpoint.h"
#include "io/open_weights.h"
#include "io/run_files.h"
#include "model/same_model.h"
#include "parallel/fit.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

std::string text_in(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

const char* kNewRun =
    "or begin a run of its own: another train.output (weights of a checkpoint: ravine convert --to hf, then model.path; of an adapter: lora.path)";

}  // namespace

void refuse_counts(const Json& scalars, int64_t step, const std::string& where) {
  constexpr auto kMost = static_cast<int64_t>(kMostSteps), kMostSeen = int64_t{1} << 53;
  auto count = [&](const Json& in, const char* key, const std::string& at, int64_t low, int64_t high, const std::string& rule) {
    if (!in.contains(key)) return;
    const auto n = field<int64_t>(in, key, at);
    if (n < low || n > high)
      throw UserError(fmt::format("'{}' is {}", key, n), at, fmt::format("{}: a whole number from {} to {}", rule, low, high),
                      "use another checkpoint");
  };
  count(scalars, "step", where, step, step, "it is that of the manifest");
  count(scalars, "step", where, 0, kMost, "a run has so many steps");
  count(scalars, "optimizer_steps", where, 0, step, "a step makes one update at most");
  count(scalars, "spikes_in_a_row", where, 0, step, "a step is one spike at most");
  count(scalars, "tokens", where, 0, kMostSeen, "a run sees so many");
  count(scalars, "global_batch", where, 1, static_cast<int64_t>(kMostSequences), "a step has so many sequences");
  count(scalars, "own_ranks", where, 1, static_cast<int64_t>(kMostRanks), "a run has so many ranks");
  if (!scalars.contains("window")) return;
  const Json window = field<Json>(scalars, "window", where);
  const std::string in_window = where + ": window";
  count(window, "steps", in_window, 1, step, "it counts steps of the run");
  count(window, "valid", in_window, 0, kMostSeen, "it counts labels");
  count(window, "tokens", in_window, 0, kMostSeen, "it counts tokens");
}

Json recorded_options(const Config& config, int64_t data_ranks, int64_t sum_leaves) {
  Config copy = config;
  copy.parallel.data = data_ranks;
  copy.parallel.sum_leaves = sum_leaves;
  Json out = Json::object();
  for (const Section& s : sections_of(copy))
    for (const Option& o : s.options) out[o.name()] = o.yaml();
  return out;
}

RunRecord run_record(const std::string& checkpoint, int64_t step, const Json& scalars, const std::string& instructions,
                     const std::string& where) {
  RunRecord out{.checkpoint = checkpoint, .step = step};
  auto has = [&](const char* key) { return scalars.contains(key); };
  if (has("sum_leaves")) out.sum_leaves = field<int64_t>(scalars, "sum_leaves", where);
  if (has("layout") && field<Json>(scalars, "layout", where).contains("stage_layers")) {
    int64_t layers = 0;
    for (const Json& n : array_field(scalars.at("layout"), "stage_layers", where + ": layout"))
      layers += n.is_number_integer() ? n.get<int64_t>() : 0;
    if (layers > 0) out.layers = layers;
  }
  if (has("model")) out.model = field<Json>(scalars, "model", where);
  out.weights = text_in(scalars, "weights");
  // For programs that recorded no options.
  if (has("optimizer")) out.options["optimizer.type"] = field<std::string>(scalars, "optimizer", where);
  if (has("seed")) out.options["train.seed"] = std::to_string(field<int64_t>(scalars, "seed", where));
  if (has("compute")) {
    const std::string compute = field<std::string>(scalars, "compute", where);
    out.options["precision.compute"] = compute;
    if (compute == "bf16" && !instructions.empty())
      out.options["precision.bf16_products"] =
          name(instructions.find("dot products") != std::string::npos ? Bf16Products::dot : Bf16Products::widen);
  }
  const Json options = has("options") ? field<Json>(scalars, "options", where) : Json::object();
  for (const auto& [key, value] : options.items()) {
    if (!value.is_string())
      throw UserError(fmt::format("'{}' of the options", shown_text(key)), where, "it must be a text",
                      "use another checkpoint");
    out.options[key] = value.get<std::string>();
  }
  if (has("optimizer") && out.options["optimizer.type"] != field<std::string>(scalars, "optimizer", where))
    throw UserError(fmt::format("'optimizer' is {}", shown_text(text_in(scalars, "optimizer"))), where,
                    fmt::format("its options say optimizer.type={}", shown_text(out.options["optimizer.type"])),
                    "use another checkpoint");
  return out;
}

std::optional<RunRecord> glance_at_checkpoint(const std::string& checkpoints_dir, const std::string& resume,
                                              const TakesCheckpoint& takes) {
  if (resume == kResumeNone) return {};
  for (const std::string& from : resume == kResumeNewest ? checkpoints_to_try(checkpoints_dir, takes) : std::vector{resume}) {
    try {
      const Json manifest = read_run_json((fs::path(from) / "manifest.json").string(), int64_t{1} << 30);
      const Json& scalars = manifest.at("scalars");
      return run_record(fs::path(from).lexically_normal().filename().string(), field_or(manifest, "step", "", int64_t{0}),
                        scalars, text_in(manifest, "instructions"), "");
    } catch (const std::exception&) {
    }
  }
  return {};
}

void keep_choices(Config& config, const RunRecord& was, Backend backend, const CpuArithmetic& cpu) {
  PrecisionOptions& options = config.precision;
  auto keep = [&]<class E>(std::optional<E>& value, const char* key, std::initializer_list<E> known) {
    const auto it = was.options.find(key);
    if (value || it == was.options.end()) return;
    for (const E one : known)
      if (it->second == name(one)) value = one;
  };
  keep(config.checkpoint.model_dtype, "checkpoint.model_dtype", {DType::f32, DType::bf16, DType::f16});
  keep(options.compute, "precision.compute", {DType::f32, DType::bf16, DType::f16, DType::f64});
  if (options.compute != DType::bf16 || options.bf16_products || backend != Backend::cpu) return;
  keep(options.bf16_products, "precision.bf16_products", {Bf16Products::dot, Bf16Products::widen});
  if (options.bf16_products == Bf16Products::dot && !cpu.bf16_dot)
    throw UserError(fmt::format("{} was made with bf16 dot products", was.checkpoint), "precision.bf16_products",
                    "this machine has no such instruction (AVX512_BF16)",
                    "set precision.bf16_products=widen to go on here: numbers agree closely from there on, not bit for bit");
}

std::string OptionChange::text() const { return fmt::format("{}: {}, was {}", name, shown_text(now), shown_text(was)); }

namespace {

// Returns the value of a recorded option; the text itself if it is no YAML.
std::string plain(const std::string& recorded) {
  try {
    const YamlNode::Ptr node = load_yaml(recorded, "checkpoint", false);
    return node->scalar() ? node->text : recorded;
  } catch (const UserError&) {
    return recorded;
  }
}

// Returns "[a.txt, b.txt]" of a recorded data.train, without weights and formats; the text itself if it is no list.
std::string paths_of_sources(const std::string& recorded) {
  try {
    const YamlNode::Ptr node = load_yaml(recorded, "checkpoint", false);
    std::vector<std::string> paths;
    for (const YamlNode::Ptr& item : node->items)
      if (const YamlNode* path = item->find("path")) paths.push_back(path->text);
    return paths.empty() ? recorded : fmt::format("[{}]", fmt::join(paths, ", "));
  } catch (const UserError&) {
    return recorded;
  }
}

}  // namespace

std::vector<OptionChange> option_changes(const RunRecord& was, const Json& now, const std::string& weights) {
  std::vector<OptionChange> out;
  Config table;
  std::error_code error;
  for (const Section& s : sections_of(table))
    for (const Option& o : s.options) {
      const auto before = was.options.find(o.name());
      const std::string value = text_in(now, o.name().c_str());
      if (before == was.options.end() || before->second == value) continue;
      OptionChange c{.name = o.name(), .was = before->second, .now = value, .rule = o.rule.on_resume};
      if (o.rule.path != Rule::Path::none && o.is_text()) {
        const std::string from = plain(c.was), to = plain(c.now);
        if (!from.empty() && !to.empty() && same_path(from, to)) continue;
        if (c.name == "model.path" && !from.empty() && !to.empty() &&
            (was.weights.empty() ? !fs::exists(from, error) : was.weights == weights))
          c.rule = OnResume::may_change;
      }
      out.push_back(std::move(c));
    }
  return out;
}

void refuse_strangers_in_default(const RunRecord& was, const Config& config) {
  if (config.train.output != TrainOptions().output || config.sources.contains("train.output")) return;
  Config copy = config;
  std::string there, here;
  bool other = false;
  for (const Section& s : sections_of(copy))
    for (const Option& o : s.options) {
      const std::string name = o.name();
      if (name != "model.path" && name != "model.config" && name != "data.train") continue;
      const auto before = was.options.find(name);
      if (before == was.options.end()) return;
      const std::string had = o.is_text() ? plain(before->second) : paths_of_sources(before->second),
                        has = o.is_text() ? plain(o.yaml()) : paths_of_sources(o.yaml());
      if (!had.empty()) there += fmt::format("{}{}={}", there.empty() ? "" : " ", name, shown_text(had));
      if (!has.empty()) here += fmt::format("{}{}={}", here.empty() ? "" : " ", name, shown_text(has));
      other = other || (had != has && !(!had.empty() && !has.empty() && o.is_text() && same_path(had, has)));
    }
  if (other)
    throw UserError(
        fmt::format("another run is in {}: {}, saved after step {}", config.train.output, there, was.step),
        "train.output, which is not set", fmt::format("this run is {}, and a folder holds one run", here),
        fmt::format("set another folder, such as train.output=runs/second, or train.output={} to resume the run there",
                    config.train.output));
}

void refuse_other_options(const RunRecord& was, const std::vector<OptionChange>& changes, const Config& config) {
  std::vector<std::string> what, back;
  std::string where;
  bool data = true;
  for (const OptionChange& c : changes) {
    const bool of_data = c.name.starts_with("data.");
    if (c.rule != OnResume::fixed || (of_data && config.checkpoint.other_data)) continue;
    auto source = config.sources.find(c.name);
    const char* ratio = "schedule.warmup_ratio";  // count_steps converts it to steps
    const bool of_ratio = c.name == "schedule.warmup_steps" && source == config.sources.end() && config.sources.contains(ratio);
    if (of_ratio) source = config.sources.find(ratio);
    if (where.empty()) where = source == config.sources.end() ? "default" : source->second;
    what.push_back(fmt::format("{} is {}, was {}", c.name, shown_text(c.now), shown_text(c.was)));
    back.push_back(fmt::format("{}={}{}", c.name, shown_text(c.was), of_ratio ? fmt::format(" (in place of {})", ratio) : ""));
    data = data && of_data;
  }
  if (what.empty()) return;
  throw UserError(fmt::format("{}", fmt::join(what, "; ")), where,
                  fmt::format("{} resumes with the options of its run; docs/options.md says which may change", was.checkpoint),
                  fmt::format("set {}{}, {}", fmt::join(back, " "), data ? ", or checkpoint.other_data=true" : "", kNewRun));
}

namespace {

// Returns the model of a config.json; null if this program cannot read it.
std::unique_ptr<Model> model_of(const Json& config) {
  try {
    return make_model(config, "config.json");
  } catch (const UserError&) {
    return nullptr;
  }
}

// Returns the fields that make the two models differ: with the other's value of a field the model changes. Names are
// joined by ", ".
std::string field_that_differs(const Json& was, const Model& model) {
  const Json& now = model.config();
  std::set<std::string> keys;
  for (const Json* config : {&was, &now})
    for (const auto& [key, value] : config->items()) keys.insert(key);
  std::vector<std::string> all;
  for (const std::string& key : keys) {
    const auto before = was.find(key), after = now.find(key);
    if (before != was.end() && after != now.end() && *before == *after) continue;
    Json other = now;
    if (before == was.end())
      other.erase(key);
    else
      other[key] = *before;
    const std::unique_ptr<Model> made = model_of(other);
    if (!made || !same_model(*made, model)) all.push_back(key);
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

void refuse_other_model(const RunRecord& was, const Model& model, const Config& config) {
  const std::string where = model_label(config.model);
  auto refuse = [&](const std::string& field, const std::string& is, const std::string& had) {
    const bool stored = !config.model.path.empty();  // then options change these fields
    const std::string back = stored && field == "vocab_size" ? fmt::format("set model.vocabulary={}", had)
                             : stored && field == "tie_word_embeddings"
                                 ? fmt::format("set model.tie={}", name(had == "true" ? Tie::tied : Tie::untied))
                                 : "go back to that model";
    throw UserError(fmt::format("{} is {}, was {}", field, is, had), where,
                    fmt::format("{} resumes with the model of its run", was.checkpoint), fmt::format("{}, {}", back, kNewRun));
  };
  // Fields without an effect on weights or arithmetic.
  static const std::set<std::string> kIdle = {"architectures", "transformers_version", "torch_dtype",  "dtype",
                                              "use_cache",     "bos_token_id",         "eos_token_id", "pad_token_id",
                                              "auto_map",      "initializer_range"};
  if (was.model.is_object()) {
    const Json& now = model.config();
    for (const auto& [key, value] : was.model.items()) {
      if (kIdle.count(key) || key.starts_with("_")) continue;
      const auto it = now.find(key);
      if (it == now.end() || *it == value) continue;
      const auto tokenizer = was.options.find("model.tokenizer");
      if (key == "vocab_size" && config.model.path.empty() && !config.model.tokenizer.empty() &&
          tokenizer != was.options.end() && tokenizer->second != yaml_text(config.model.tokenizer))
        throw UserError(fmt::format("vocab_size is {}, was {}", shown_text(it->dump()), shown_text(value.dump())),
                        fmt::format("model.tokenizer={}", config.model.tokenizer),
                        fmt::format("{} resumes with the model of its run, which has the ids of its tokenizer", was.checkpoint),
                        fmt::format("set model.tokenizer={}, {}", tokenizer->second, kNewRun));
      refuse(key, shown_text(it->dump()), shown_text(value.dump()));
    }
    // A field that is missing in one of the two has the default of the family, so the models are compared.
    if (const std::unique_ptr<Model> then = model_of(was.model); then && !same_model(*then, model)) {
      const std::string field = field_that_differs(was.model, model);
      auto described = [&](const Json& config) {
        const auto it = config.find(field);
        return it == config.end() ? std::string("not given") : shown_text(it->dump());
      };
      refuse(field, described(now), described(was.model));
    }
  }
  if (was.layers && *was.layers != layers_of(model))
    refuse("the number of layers", std::to_string(layers_of(model)), std::to_string(*was.layers));
}

}  // namespace ravine

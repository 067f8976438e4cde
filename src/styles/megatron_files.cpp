#include "styles/megatron_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "config/yaml_json.h"
#include "io/convert/held_options.h"
#include "io/convert/megatron_folder.h"
#include "io/convert/megatron_place.h"
#include "io/convert/megatron_state.h"
#include "optim/schedule.h"
#include "runs/open.h"
#include "runs/run_record.h"
#include "step/layout.h"
#include "styles/step_folders.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

const StepNames kIterations{.before = "iter_", .digits = 7};

// A feature of a run that Megatron's files cannot store.
struct Beyond {
  std::string what, rule, fix;
};

std::optional<Beyond> beyond_options(const Config& c) {
  const auto& p = c.parallel;
  if (c.optimizer.type != OptimizerType::adamw && c.optimizer.type != OptimizerType::adam)
    return Beyond{fmt::format("optimizer.type {}", name(c.optimizer.type)), "they keep the states of adamw and adam",
                  "use one of these"};
  if (c.lora.asked()) return Beyond{"an adapter", "they hold a whole model that is trained", "leave lora out"};
  if (!c.train.freeze.empty())
    return Beyond{"train.freeze", "they keep moments of every parameter", "leave train.freeze empty"};
  if (!c.optimizer.groups.empty())
    return Beyond{"optimizer.groups", "their groups are matrices and vectors", "leave optimizer.groups empty"};
  if (p.zero > 1)
    return Beyond{fmt::format("parallel.zero {}", p.zero),
                  "0 is Megatron's plain optimizer and 1 its distributed one; more than states it does not divide",
                  "set parallel.zero=1"};
  if (p.expert > 1)
    return Beyond{fmt::format("parallel.expert {}", p.expert), "all experts lie in the file of each tensor rank",
                  "set parallel.expert=1"};
  if (c.precision.compute == DType::f64)
    return Beyond{"arithmetic in f64", "Megatron trains in f32, bf16 and f16", "choose one"};
  if (c.health.embedding_norm > 0)
    return Beyond{"health.embedding_norm", "they keep no verdict on health", "set health.embedding_norm=0"};
  return {};
}

MegatronLayout layout_of(const Config& c, const Model& model, MegatronNames names = MegatronNames::mcore) {
  std::vector<int64_t> layers = layers_of_parts(model, c);
  if (std::all_of(layers.begin(), layers.end(), [&](int64_t n) { return n == layers[0]; })) layers.clear();
  return {.names = names,
          .tensor = c.parallel.tensor,
          .pipeline = c.parallel.pipeline,
          .virtual_stages = c.parallel.virtual_stages,
          .place = "",
          .stage_layers = layers};
}

std::optional<Beyond> beyond_model(const Config& c, const Model& model) {
  if (c.parallel.virtual_stages > 1 && !layout_of(c, model).stage_layers.empty())
    return Beyond{"virtual stages with different numbers of layers", "theirs are equal",
                  "leave parallel.stage_layers and parallel.split out, or parallel.virtual"};
  for (const Param& param : model.params().params())
    if (!param.tied && !param.policy.trainable)
      return Beyond{fmt::format("'{}', which the optimizer does not train", param.name), "they keep moments of every parameter",
                    "train another model"};
  try {
    const std::string where = model_place(c.model);
    check_megatron_layout(geometry_of(model.config(), where), layout_of(c, model), where);
  } catch (const UserError& e) {
    return Beyond{"this model on these ranks", e.what(), "change them"};
  }
  return {};
}

void refuse(const std::optional<Beyond>& beyond) {
  if (beyond)
    throw UserError("checkpoint.layout is megatron, with " + beyond->what, "checkpoint.layout", beyond->rule,
                    beyond->fix + ", or set checkpoint.layout=ravine, whose files Megatron does not read");
}

// True if a checkpoint has no state of the optimizer: --no-save-optim.
bool is_weights_alone(const std::string& ranks) {
  try {
    const MegatronFolder found = open_megatron(ranks, StateKind::weights);
    return found.ranks[0].file && argument(*found.ranks[0].file, "no_save_optim").value_or(0) != 0;
  } catch (const UserError&) {  // reported when the checkpoint is opened
    return false;
  }
}

void refuse_weights_alone(const std::string& from, const std::string& ranks) {
  if (is_weights_alone(ranks))
    throw UserError(
        "weights alone", ranks, "it was saved without the state of the optimizer (--no-save-optim)",
        fmt::format("begin from its weights in another train.output: model.weights={0} (--load {0} --finetune)", from));
}

// Returns the parameter names of the checkpoint to resume from; a run that resumes from the names of 2023 keeps them.
MegatronNames names_in(const std::string& folder) {
  if (folder.empty()) return MegatronNames::mcore;
  const MegatronFolder found = open_megatron(folder, StateKind::weights);
  const auto& first = found.ranks[0].chunks[0];
  const bool core = std::any_of(first.begin(), first.end(), [](const auto& t) {
    return t.name.starts_with("decoder.") || t.name.starts_with("embedding.");
  });
  return core ? MegatronNames::mcore : MegatronNames::legacy;
}

class MegatronFiles : public CheckpointFiles {
 public:
  void check(const Config& c) const override {
    refuse(beyond_options(c));
    refuse(beyond_model(c, *open_run_model(c)));
  }
  void check_folder(const Config& c, const std::string& run) const override {
    if (const std::string there = foreign_ahead(c, kIterations, run, to_resume(c)); !there.empty())
      throw UserError("a folder that this run would write", there,
                      "it, or a file in it, is not this run's own, and is not replaced",
                      "choose another train.output (--save), or move it away");
  }
  std::string to_resume(const Config& c) const override;
  void clean_leftovers(const Config& c) const override { clean_step_leftovers(c.train.output, kIterations); }
  ForeignState open(const OpenedRun& run, const std::string& path) const override {
    const Config& c = run.config();
    ForeignState state =
        open_megatron_state(path, run.model->config(), model_place(c.model), c.train.global_batch, c.checkpoint.data_steps);
    state.scalars["options"] = megatron_held(path, c.train.global_batch).recorded();
    return state;
  }
  Publisher publisher(const OpenedRun& run) const override;
  std::string folder(const Config& c) const override { return c.train.output; }
  std::string how_to_go_on(const Config& c) const override {
    if (!c.checkpoint.optimizer) return "nothing (checkpoints are weights alone)";
    return c.checkpoint.resume == kResumeNewest ? std::string("the same command")
                                                : "the same command with checkpoint.resume=auto (--load as --save)";
  }
  int64_t newest_step(const std::string& output) const override {
    std::ifstream tracker(output + "/" + kMegatronTracker);
    int64_t step = -1;
    return tracker >> step ? std::max<int64_t>(step, -1) : -1;
  }
  std::string pattern() const override { return kIterations.before + "*"; }
  bool beside_model() const override { return true; }
};

std::string MegatronFiles::to_resume(const Config& c) const {
  const std::string& asked = c.checkpoint.resume;
  if (asked == kResumeNone) return "";
  const bool newest = asked == kResumeNewest;
  const std::string from = newest ? c.train.output : asked, where = "checkpoint.resume=" + asked;
  std::error_code error;
  if (newest && !fs::exists(from + "/" + kMegatronTracker, error)) return "";
  if (!fs::is_directory(from, error))
    throw UserError("no such folder", where, "it is DIR or DIR/iter_NNNNNNN, with folders mp_rank_TT", "correct the path");
  if (fs::exists(from + "/manifest.json", error))
    throw UserError("a checkpoint of Ravine's own", from, "checkpoint.layout=megatron goes on from Megatron's files",
                    "set checkpoint.layout=ravine, or convert it: ravine convert --to megatron-mcore --optimizer");
  if (!is_megatron_folder(from))
    throw UserError("no checkpoint of Megatron", where, fmt::format("it holds {} or folders mp_rank_TT", kMegatronTracker),
                    "correct the path");
  const std::string ranks = megatron_ranks(from);
  if (fs::path(ranks).filename() != kMegatronRelease) {
    refuse_weights_alone(from, ranks);
    return ranks;
  }
  if (newest) return "";
  throw UserError("weights alone", ranks, "a release has no step to go on from",
                  fmt::format("begin from them: model.weights={}", from));
}

Publisher MegatronFiles::publisher(const OpenedRun& run) const {
  const Config& c = run.config();
  const Json model = run.model->config();
  const std::string place = model_place(c.model), output = c.train.output, id = run.folder->run();
  std::vector<std::string> notes;
  MegatronState s = megatron_state_of(c, c.optimizer.lr, notes);
  s.layout = layout_of(c, *run.model, names_in(to_resume(c)));
  s.distributed = c.parallel.zero == 1;
  s.states = c.checkpoint.optimizer;
  s.ranks = run.spec->layout.mesh.data;
  s.compute = run.spec->types.compute;
  s.dynamic_scale = s.compute == DType::f16 && c.precision.loss_scale.value_or(0) == 0;
  megatron_notes(geometry_of(model, place), s.layout, notes);
  for (const std::string& note : notes) run.log.line("files    for Megatron: {}", note);
  return [s, c, id, output, model, place](const std::string& folder, int64_t step, const Json& scalars) mutable {
    const auto made = scalars.find("optimizer_steps");
    const int64_t updates = made != scalars.end() && made->is_number_integer() ? made->get<int64_t>() : step;
    s.lr = rates_of_update(c.schedule, c.optimizer.lr, c.train.steps, updates).lr;
    const std::string path = output + "/" + kIterations.name(step);
    TargetFolder target(path, fmt::format("{} {}", id, step), replaces_own(id));
    write_megatron_state(target, folder, model, place, s, [](int64_t) {});
    write_file_atomic(target.path("config.json"), model.dump(2) + "\n");
    mark_as_made(target.folder(), id, kIterations.name(step));
    target.commit();
    write_file_atomic(output + "/" + kMegatronTracker, std::to_string(step));
    keep_newest(output, kIterations, id, step, c.checkpoint.keep);
    return path;
  };
}

}  // namespace

std::shared_ptr<const CheckpointFiles> megatron_files() { return std::make_shared<MegatronFiles>(); }

Json options_in_checkpoints(const std::string& folder, int64_t global_batch) {
  try {
    const auto own = glance_at_checkpoint(folder + "/checkpoints", kResumeNewest);
    if (!own) return megatron_held(folder, global_batch).values;
    Json out = Json::object();
    for (const auto& [option, value] : own->options) out[option] = json_of(*load_yaml(value, option, false));
    return out;
  } catch (const UserError&) {  // reported when the folder is opened
    return Json::object();
  }
}

std::string beyond_megatron_files(const Config& c) {
  std::optional<Beyond> beyond = beyond_options(c);
  if (!beyond) try {
      beyond = beyond_model(c, *open_run_model(c));
    } catch (const UserError&) {  // reported when the model is opened
    }
  return beyond ? fmt::format("Megatron's have no place for {}: {}", beyond->what, beyond->rule) : "";
}

}  // namespace ravine

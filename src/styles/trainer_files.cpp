#include "styles/trainer_files.h"

#include <filesystem>

#include "base/error.h"
#include "io/adapter_config.h"
#include "io/adapter_folder.h"
#include "io/checkpoint_health.h"
#include "io/convert/trainer_order.h"
#include "io/convert/trainer_state.h"
#include "io/convert/zero_checkpoint.h"
#include "io/foreign_kinds.h"
#include "optim/schedule.h"
#include "runs/adapter.h"
#include "styles/step_folders.h"
#include "styles/trainer_record.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

const StepNames kOwnNames{.before = "checkpoint-"};

TrainedModel trained_model(const OpenedRun& run) {
  const Config& c = run.config();
  return {.model = run.model.get(), .adapter = run.lora.has_value(), .where = model_label(c.model), .weights = run.weights};
}

class TrainerFiles : public CheckpointFiles {
 public:
  explicit TrainerFiles(const TrainerOutputs& outputs) : outputs_(outputs) {}
  void check(const Config& c) const override {
    const auto refuse = [](const std::string& what, const std::string& rule) {
      throw UserError("checkpoint.layout is trainer, with " + what, "checkpoint.layout", rule,
                      "change that, or set checkpoint.layout=ravine, whose files the Trainer does not read");
    };
    if (c.optimizer.type != OptimizerType::adamw)
      refuse(fmt::format("optimizer.type {}", name(c.optimizer.type)), "its files keep the states of adamw");
    if (!c.optimizer.groups.empty()) refuse("optimizer.groups", "its files have the groups that decay and that do not");
    if (c.precision.compute == DType::f64) refuse("precision.compute f64", "its files keep f32");
    if (c.parallel.tensor > 1 || c.parallel.pipeline > 1)
      refuse("tensor ranks or pipeline stages", "its files are those of data ranks");
  }
  void check_folder(const Config& c, const std::string& run) const override {
    const std::string from = to_resume(c);
    const std::map<int64_t, std::string> whole = trainer_checkpoints(c.train.output);
    const auto refuse = [](const std::string& there) {
      throw UserError("a folder that this run would write", there,
                      is_zero_checkpoint(there) ? "it is a checkpoint of DeepSpeed, and is not replaced"
                                                : "it, or a file in it, is not this run's own, and is not replaced",
                      "choose another train.output (--output_dir), or move it away");
    };
    for (const auto& [step, there] : trainer_checkpoints(c.train.output, false))
      if (!is_of_run(there, run) && there != from && !whole.contains(step)) refuse(there);
    if (const std::string there = foreign_ahead(c, kOwnNames, run, from); !there.empty()) refuse(there);
  }
  std::string to_resume(const Config& c) const override;
  void clean_leftovers(const Config& c) const override { clean_step_leftovers(c.train.output, kOwnNames); }
  std::vector<std::string> take_over(Config& c) const override {
    const std::string from = to_resume(c);
    return from.empty() ? std::vector<std::string>() : take_trainer_settings(from, c);
  }
  ForeignState open(const OpenedRun& run, const std::string& path) const override {
    const Config& c = run.config();
    const TrainedModel model = trained_model(run);
    ForeignState state = open_trainer_state(path, model, c.train.global_batch, c.checkpoint.data_steps);
    if (const std::string unlike = unlike_trainer_groups(path, model, c); !unlike.empty()) run.log.warn("{}", unlike);
    return state;
  }
  Publisher publisher(const OpenedRun& run) const override;
  std::string folder(const Config& c) const override { return c.train.output; }
  std::string how_to_go_on(const Config& c) const override {
    return c.checkpoint.resume == kResumeNewest
               ? std::string("the same command")
               : "the same command with checkpoint.resume=auto (--resume_from_checkpoint True)";
  }
  int64_t newest_step(const std::string& output) const override {
    const std::map<int64_t, std::string> whole = trainer_checkpoints(output);
    return whole.empty() ? -1 : whole.rbegin()->first;
  }
  std::string pattern() const override { return kOwnNames.before + "*"; }
  bool exports_model() const override { return true; }

 private:
  TrainerOutputs outputs_;
};

std::string TrainerFiles::to_resume(const Config& c) const {
  const std::string& resume_from = c.checkpoint.resume;
  if (resume_from == kResumeNone) return "";
  if (resume_from == kResumeNewest) {
    const std::map<int64_t, std::string> whole = trainer_checkpoints(c.train.output);
    return whole.empty() ? "" : whole.rbegin()->second;
  }
  if (is_trainer_checkpoint(resume_from)) return resume_from;
  const std::string where = "checkpoint.resume=" + resume_from,
                    rule = "it is checkpoint-N of the Trainer: optimizer.pt, trainer_state.json, weights";
  std::error_code error;
  if (!fs::is_directory(resume_from, error)) throw UserError("no such folder", where, rule, "correct the path");
  if (const auto all = trainer_checkpoints(resume_from); !all.empty())
    throw UserError("a folder of checkpoints", where, rule, fmt::format("its newest is {}", all.rbegin()->second));
  if (fs::exists(resume_from + "/manifest.json", error))
    throw UserError("a checkpoint of Ravine's own", where, rule, "set checkpoint.layout=ravine");
  if (is_zero_checkpoint(resume_from))
    throw UserError("a checkpoint of DeepSpeed", where, rule, "set checkpoint.layout=deepspeed (--deepspeed with its config)");
  if (const auto kind = foreign_kind(resume_from)) throw UserError(kind->what, where, rule, kind->fix);
  const bool of_trainer = fs::exists(resume_from + "/trainer_state.json", error),
             adapter = find_adapter(resume_from).has_value();
  throw UserError(of_trainer ? "a checkpoint of the Trainer without its optimizer (--save_only_model)"
                  : adapter  ? "an adapter without the state of a training"
                             : "no checkpoint of the Trainer",
                  where, rule,
                  adapter ? "to continue from the adapter's weights, set lora.path to this folder"
                          : "begin from its weights alone: --model_name_or_path (model.path) with this folder");
}

Publisher TrainerFiles::publisher(const OpenedRun& run) const {
  const Config& c = run.config();
  const std::string output = c.train.output, id = run.folder->run();
  const TrainedModel model = trained_model(run);
  trainer_order(*model.model, model.adapter ? adapter_files(*model.model) : model.model->files(), model.where);
  const TrainerRecord record(run, outputs_);
  TrainerState s{.optimizer = c.optimizer,
                 .compute = run.spec->types.compute,
                 .dynamic_scale = run.spec->types.compute == DType::f16 && c.precision.loss_scale.value_or(0) == 0,
                 .scale_window = c.precision.scale_window,
                 .ranks = run.spec->layout.mesh.data,
                 .seed = c.train.seed,
                 .arguments = record.arguments()};
  if (run.lora) s.adapter_config = adapter_config_of(*run.lora, *run.model, base_of(c));
  return [s, c, id, output, model, record](const std::string& folder, int64_t step, const Json& scalars) mutable {
    const auto made = scalars.find("optimizer_steps");
    const int64_t updates = made != scalars.end() && made->is_number_integer() ? made->get<int64_t>() : step;
    s.lr = rates_of_update(c.schedule, c.optimizer.lr, c.train.steps, updates).lr;
    int64_t stays = 0;
    s.trainer_state = record.state(step, kOwnNames.before, stays);
    const std::string name = kOwnNames.name(step), path = output + "/" + name;
    TargetFolder target(path, fmt::format("{} {}", id, step), replaces_own(id));
    write_trainer_state(target, folder, model, s, [](int64_t) {});
    mark_as_made(target.folder(), id, name);
    target.commit();
    record_verdict(path, name, scalars);
    keep_newest(output, kOwnNames, id, step, c.checkpoint.keep, stays);
    return path;
  };
}

}  // namespace

std::shared_ptr<const CheckpointFiles> trainer_files(const TrainerOutputs& outputs) {
  return std::make_shared<TrainerFiles>(outputs);
}

}  // namespace ravine

#include "styles/deepspeed_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "dialects/reverse.h"
#include "io/checkpoint_health.h"
#include "io/convert/deepspeed_layout.h"
#include "io/convert/deepspeed_state.h"
#include "io/convert/held_options.h"
#include "io/convert/trainer_state.h"
#include "io/convert/zero_checkpoint.h"
#include "optim/schedule.h"
#include "styles/step_folders.h"
#include "styles/trainer_record.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

const StepNames kCheckpoints{.before = "checkpoint-"};

// A UserError that names what a folder is that holds no states of DeepSpeed.
void refuse_other_than_zero(const std::string& resume_from) {
  if (is_zero_checkpoint(resume_from)) return;
  const std::string where = "checkpoint.resume=" + resume_from,
                    rule = "it is checkpoint-N, whose file latest names the folder of its states, or that folder";
  std::error_code error;
  std::string states;
  for (const auto& entry : fs::directory_iterator(resume_from, error))
    if (entry.is_directory(error) && is_zero_checkpoint(entry.path().string()))
      states = std::max(states, entry.path().filename().string(),
                        [](const auto& a, const auto& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
  if (const auto all = deepspeed_checkpoints(resume_from); !all.empty())
    throw UserError("a folder of checkpoints", where, rule, fmt::format("its newest is {}", all.rbegin()->second));
  if (!states.empty())
    throw UserError(
        "no file 'latest'", where, rule,
        fmt::format("name its states, {}/{}, or write '{}' into {}/latest", resume_from, states, states, resume_from));
  if (is_trainer_checkpoint(resume_from))
    throw UserError("a checkpoint of the Trainer without DeepSpeed", where, rule,
                    "leave --deepspeed out (checkpoint.layout=trainer), or begin from its weights: --model_name_or_path");
}

class DeepSpeedFiles : public CheckpointFiles {
 public:
  explicit DeepSpeedFiles(const TrainerOutputs& outputs) : outputs_(outputs) {}
  void check_folder(const Config& c, const std::string& run) const override {
    const std::string from = to_resume(c);
    const std::map<int64_t, std::string> whole = deepspeed_checkpoints(c.train.output);
    const auto refuse = [](const std::string& there) {
      throw UserError("a folder that this run would write", there,
                      "it, or a file in it, is not this run's own, and is not replaced",
                      "choose another train.output (--output_dir), or move it away");
    };
    for (const auto& [step, there] : deepspeed_checkpoints(c.train.output, false))
      if (!is_of_run(there, run) && there != from && !whole.contains(step)) refuse(there);
    if (const std::string there = foreign_ahead(c, kCheckpoints, run, from); !there.empty()) refuse(there);
  }
  void check(const Config& c) const override {
    static const OptimizerType kFiled[] = {OptimizerType::adamw, OptimizerType::adam, OptimizerType::lion};
    if (std::find(std::begin(kFiled), std::end(kFiled), c.optimizer.type) == std::end(kFiled))
      throw UserError(fmt::format("checkpoint.layout is deepspeed, optimizer.type {}", name(c.optimizer.type)),
                      "checkpoint.layout", "its files keep the states of adamw, adam and lion",
                      "use one of these, or set checkpoint.layout=ravine, whose files DeepSpeed does not read");
    if (c.parallel.tensor > 1 || c.parallel.pipeline > 1 || c.lora.enabled())
      throw UserError("checkpoint.layout is deepspeed with tensor ranks, pipeline stages or an adapter", "checkpoint.layout",
                      "its files are those of data ranks that train a whole model", "set checkpoint.layout=ravine");
  }
  std::string to_resume(const Config& c) const override;
  void clean_leftovers(const Config& c) const override { clean_step_leftovers(c.train.output, kCheckpoints); }
  ForeignState open(const OpenedRun& run, const std::string& path) const override {
    const Config& c = run.config();
    ForeignState state =
        open_deepspeed_state(path, run.model->config(), model_label(c.model), c.train.global_batch, c.checkpoint.data_steps);
    state.scalars["options"] = deepspeed_held(path).recorded();
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
    const std::map<int64_t, std::string> whole = deepspeed_checkpoints(output);
    return whole.empty() ? -1 : whole.rbegin()->first;
  }
  std::string pattern() const override { return kCheckpoints.before + "*"; }
  bool exports_model() const override { return true; }

 private:
  TrainerOutputs outputs_;
};

std::string DeepSpeedFiles::to_resume(const Config& c) const {
  const std::string& resume_from = c.checkpoint.resume;
  if (resume_from == kResumeNone) return "";
  if (resume_from == kResumeNewest) {
    const std::map<int64_t, std::string> whole = deepspeed_checkpoints(c.train.output);
    return whole.empty() ? "" : whole.rbegin()->second;
  }
  std::error_code error;
  if (!fs::is_directory(resume_from, error))
    throw UserError("no such folder", "checkpoint.resume=" + resume_from,
                    "it is checkpoint-N, a folder with the file latest, or global_stepN", "correct the path");
  if (fs::exists(resume_from + "/manifest.json", error))
    throw UserError("a checkpoint of Ravine's own", resume_from, "checkpoint.layout=deepspeed resumes from DeepSpeed's files",
                    "set checkpoint.layout=ravine, or convert it: ravine convert --to deepspeed");
  refuse_other_than_zero(resume_from);
  return resume_from;
}

Publisher DeepSpeedFiles::publisher(const OpenedRun& run) const {
  const Config& c = run.config();
  const std::string output = c.train.output, id = run.folder->run();
  check_deepspeed_order(run.model->config(), model_label(c.model));
  DeepSpeedState s{.stage = c.parallel.zero,
                   .ranks = run.spec->layout.mesh.data,
                   .round_robin = outputs_.round_robin,
                   .compute = run.spec->types.compute,
                   .sub_group = outputs_.sub_group,
                   .optimizer = c.optimizer,
                   .dynamic_scale = run.spec->types.compute == DType::f16 && c.precision.loss_scale.value_or(0) == 0,
                   .scale_window = c.precision.scale_window,
                   .scale_hysteresis = c.precision.scale_hysteresis,
                   .scale_min = c.precision.scale_min,
                   .scale_consecutive = c.precision.scale_consecutive_hysteresis,
                   .arguments = {},
                   .ds_config = Json::parse(deepspeed_form(c, nullptr).text, nullptr, false)};
  const TrainerRecord record(run, outputs_);
  s.arguments = record.arguments();
  return [s, c, id, output, record, model = run.model->config()](const std::string& folder, int64_t step,
                                                                 const Json& scalars) mutable {
    const auto made = scalars.find("optimizer_steps");
    const int64_t updates = made != scalars.end() && made->is_number_integer() ? made->get<int64_t>() : step;
    s.lr = rates_of_update(c.schedule, c.optimizer.lr, c.train.steps, updates).lr;
    int64_t stays = 0;
    s.trainer_state = record.state(step, kCheckpoints.before, stays);
    const std::string name = kCheckpoints.name(step), path = output + "/" + name;
    TargetFolder target(path, fmt::format("{} {}", id, step), replaces_own(id));
    write_deepspeed_state(target, folder, model, model_label(c.model), s, [](int64_t) {});
    mark_as_made(target.folder(), id, name);
    target.commit();
    record_verdict(path, name, scalars);
    keep_newest(output, kCheckpoints, id, step, c.checkpoint.keep, stays);
    return path;
  };
}

}  // namespace

std::shared_ptr<const CheckpointFiles> deepspeed_files(const TrainerOutputs& outputs) {
  return std::make_shared<DeepSpeedFiles>(outputs);
}

}  // namespace ravine

// A training run from its opening to its last file. All ranks run the same steps. Rank 0 logs and writes files; each
// rank writes its part of checkpoints.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/stop_token.h"
#include "data/loader.h"
#include "runs/abnormal_norms.h"
#include "runs/opened_run.h"
#include "runs/resume.h"
#include "runs/saves.h"
#include "step/fault_injection.h"
#include "step/traffic.h"
#include "train/given_steps.h"
#include "train/hooks.h"
#include "train/reference.h"
#include "train/run_style.h"
#include "train/run_view.h"
#include "train/step_observer.h"

namespace ravine {

// A training run: opens it, runs its steps, and gives hooks access to it.
class Trainer : public RunView {
 public:
  // Opens the run: model, tokenizer, data and memory plan. A mistake in them or in the options is a UserError. The
  // bytes of a checkpoint are checked by run(), after it has locked the folder. world: the ranks of the job; null: a
  // single rank.
  Trainer(Config config, Backend backend, Log& log, World* world = nullptr, RunStyle style = {});

  // Reports all steps of the run to `observer`, which must outlive this. Called before run().
  void add_observer(StepObserver& observer) { step_observers_.push_back(&observer); }

  // Trains: runs all steps up to train.steps and writes train.output/model. train.exit_every or train.exit_minutes end
  // the run earlier, after saving. A stop request throws Stopped after saving. A loss that is not finite is an Error
  // that names the step (and the op, with train.find_nan). `stop` is read after every step; it must outlive the call.
  // Called once.
  void run(StopToken& stop);
  void run() { run(never_); }

  // Repeats the steps from checkpoint.resume (none: the start) to the end of step `last`, with the bits of the original
  // run. Writes nothing: locks no folder, saves and exports nothing, calls no hook. Called instead of run(). A
  // UserError if step `last` does not follow the checkpoint, or if a validation between them changes the learning rate.
  // `made` is called after each step with its loss and its learning rate.
  using StepMade = std::function<void(int64_t step, double loss, double rate)>;
  void replay(int64_t last, const StepMade& made = {});

  const Config& config() const override { return run_.config(); }
  Log& log() override { return run_.log; }
  std::string path(const std::string& name) const override { return run_.path(name); }
  std::optional<ValidationResult> validate() override;
  void follow(double validation_loss) override;
  void save_checkpoint(int64_t step) override;
  bool is_saved(int64_t step) override { return saves_->is_saved(step); }
  void begin_window() override { progress_.window = {}; }
  const Json& model_config() const override { return run_.model->config(); }
  int64_t samples() const override { return run_.data.train->row_count(); }
  const StepReport* last_report() const override { return last_ ? &*last_ : nullptr; }

  // Access to the trained model, for tests.
  Model& model() { return *run_.model; }
  StepEngine& engine() { return *run_.engine; }
  int64_t tokens_seen() const { return progress_.tokens; }

 private:
  bool first() const { return run_.ranks.first(); }
  void take_folder();
  bool prepare();
  void open_loader();
  UpdateRates rates() const;
  void start_hooks();
  bool run_steps();
  void finish(bool stopped);
  void step(int64_t step);
  void leave_out(int64_t step);
  StepResult compute(StepBatches& batches, int64_t step, const UpdateRates& rates);
  Verdict decide(int64_t step, double loss, double norm);
  StepReport report_of(const StepResult& result, int64_t step, const UpdateRates& rates);
  void end_by_rule(const StepBatches& batches, int64_t step, const StepResult& result, StepReport& report);
  void log_skipped(int64_t step, const StepResult& result);
  void end_step(StepReport& report);
  double share_of_peak(double flops_per_second);
  void log_empty_micro_batches(const StepBatches& batches, int64_t step, const StepResult& result);
  bool stop_wanted() const;
  bool ends_by_plan();
  void log_stop_reasons() const;

  double started_ = 0;  // seconds_now() in the constructor
  StopToken never_, *stop_ = &never_;
  RunStyle style_;
  int64_t began_at_ = 0, updates_before_ = 0;  // steps and updates before this process
  OpenedRun run_;                              // model, data, engine and spec
  Progress progress_;                          // the state of the run
  References references_;                      // for train.objective=dpo
  std::unique_ptr<FaultInjection> injection_;  // null: no faults
  std::unique_ptr<GivenSteps> given_;          // null: gradients are the run's own
  std::vector<StepObserver*> step_observers_;
  std::unique_ptr<Saves> saves_;              // null until run() knows its first step
  std::vector<std::unique_ptr<Hook>> hooks_;  // in the order of their calls
  std::unique_ptr<Loader> loader_;            // its thread reads the data of run_
  TrafficMeter meter_;                        // of the current step
  std::string ended_by_;                      // the option that ends the run early; "": none
  std::optional<StepReport> last_;            // of the last step of this process
  AbnormalNorms abnormal_;                    // for health.stop_norm
  bool warned_no_labels_ = false, warned_empty_micro_ = false, warned_peak_ = false;  // each warning is logged once
  bool is_spike_ = false;    // the current step is a spike of health.skip_norm
  bool overflowed_ = false;  // a step had an overflow of the loss scale
  double peak_flops_ = 0;    // of all ranks, per second: sol = flops / peak_flops_
  double step_seconds_ = 0;  // of a step, estimated before the first step
};

}  // namespace ravine

// A training run: what is opened, resumed or begun, its steps, and what it leaves in its folder. Of several ranks all do the
// same; rank 0 speaks and writes, checkpoints apart, of which each writes its part.
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
#include "train/hooks.h"
#include "train/reference.h"
#include "train/run_style.h"
#include "train/run_view.h"
#include "train/step_watch.h"

namespace ravine {

class Trainer : public RunView {
 public:
  // Opens what the run is made of (runs/opened_run.h says what is found wrong here). What is wrong with the bytes of a
  // checkpoint is found by run(), which takes the folder first.
  Trainer(Config config, Backend backend, Log& log, World* world = nullptr, RunStyle style = {});

  // Tells it of all that this run does; before run(), which it must outlive.
  void watch(StepWatch& watch) { watches_.push_back(&watch); }

  // Runs to train.steps and writes train.output/model, or to where train.exit_every or train.exit_minutes ends it, saved. Throws
  // Stopped after saving when asked to stop; Error naming step (and
  // op, with train.find_nan) when the loss is no longer finite. Once.
  // `stop` is asked after every step; it must outlive the call.
  void run(StopToken& stop);
  void run() { run(never_); }

  // Goes on from checkpoint.resume (none: from the beginning) to the end of step `last` with the bits of the run that this is of, and writes nothing: no
  // folder is taken, nothing is saved or exported, no hook is called. Instead of run(). A UserError where that step does not
  // follow the checkpoint, or needs a validation between. `made` is told of each step with its loss and its rate.
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

  // What a run came to, for tests.
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
  void say_skipped(int64_t step, const StepResult& result);
  void end_step(StepReport& report);
  double share_of_peak(double flops_per_second);
  void say_empty_micro_batches(const StepBatches& batches, int64_t step, const StepResult& result);
  bool stop_wanted() const;
  bool ends_by_plan();
  void say_what_stops() const;

  double started_ = 0;  // seconds_now() at the construction
  StopToken never_, *stop_ = &never_;
  RunStyle style_;
  int64_t began_at_ = 0, updates_before_ = 0;  // steps and updates that lie before this process
  OpenedRun run_;                              // what it is made of
  Progress progress_;                          // where it stands
  References references_;                      // of train.objective=dpo
  std::unique_ptr<FaultInjection> injection_;  // null: none
  std::vector<StepWatch*> watches_;
  std::unique_ptr<Saves> saves_;              // null before run() has found out where the run begins
  std::vector<std::unique_ptr<Hook>> hooks_;  // in the order of their calls
  std::unique_ptr<Loader> loader_;            // its thread reads the data of run_
  TrafficMeter meter_;                        // of the step under way
  std::string ended_by_;                      // the option by which the run ends early; "": none
  std::optional<StepReport> last_;            // of the last step that this process made
  AbnormalNorms abnormal_;                    // of health.stop_norm
  bool told_of_no_labels_ = false, told_of_empty_micro_ = false, told_of_peak_ = false;  // once is enough
  bool is_spike_ = false;    // the step under way, by health.skip_norm
  double peak_flops_ = 0;    // of all ranks, per second: what sol is a share of
  double step_seconds_ = 0;  // of a step, as estimated before the first
};

}  // namespace ravine

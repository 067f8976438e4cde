// A training run: opens what the config names, plans memory, resumes or begins, runs the steps, writes the run folder. Of
// several ranks all do the same; rank 0 speaks and writes, checkpoints apart, of which each writes its part.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/dataset.h"
#include "data/fingerprint.h"
#include "data/loader.h"
#include "io/checkpoint.h"
#include "optim/plateau.h"
#include "optim/schedule.h"
#include "text/tokenizer.h"
#include "train/fault_injection.h"
#include "train/guard.h"
#include "train/hooks.h"
#include "train/layout.h"
#include "train/run_folder.h"
#include "train/run_record.h"
#include "train/step.h"
#include "train/traffic.h"

namespace ravine {

class Trainer {
 public:
  // Opens model, tokenizer and data and plans memory; mistakes in them and in the options are found here, before anything is
  // written but, on several ranks, the folder with the tokens that the first makes for all. What is wrong with the bytes of a
  // checkpoint is found by run(), which takes the folder first. world: the ranks of this job, which must outlive it; null:
  // alone.
  Trainer(Config config, const std::string& backend, Log& log, World* world = nullptr);
  ~Trainer();

  // Runs to train.steps and writes train.output/model. Throws Stopped after saving when asked to stop; Error naming step (and
  // op, with train.find_nan) when the loss is no longer finite.
  void run();

  // --- for hooks
  const Config& config() const { return config_; }
  Log& log() { return log_; }
  Model& model() { return *model_; }
  StepEngine& engine() { return *engine_; }
  const Ranks& ranks() const { return ranks_; }
  std::string path(const std::string& name) const;  // inside train.output
  int64_t tokens_seen() const { return tokens_; }
  // Mean loss over the validation set, or nothing if there is none.
  std::optional<double> validate();
  void follow(double validation_loss);   // a schedule that does sets the rate of the next steps
  void save_checkpoint(int64_t step);    // starts it; the background thread goes on
  bool is_saved(int64_t step);           // whether its checkpoint is complete; waits for the one under way. All ranks ask
  void begin_window() { window_ = {}; }  // a line was written: means begin again
  const StepReport* last_report() const { return last_ ? &*last_ : nullptr; }

 private:
  void open();
  void open_data();
  void keep_tokens();
  bool stop_wanted() const;
  void say_what_stops() const;
  void announce();
  void announce_ranks() const;
  void check_memory();
  void report_saves();
  void warn_of_health(int64_t step);
  void wait_for_save();
  void check_shared(const std::string& digits);
  TakesCheckpoint healthy_only() const;  // what a resume may take where health.embedding_norm is set; null: any
  void check_disk();
  int64_t checkpoint_bytes() const;              // of all ranks; needs no memory yet
  void refuse_without_room(int64_t step) const;  // at which the run begins
  int64_t saves_from(int64_t step) const;
  void measure_what_is_saved();
  std::string what_is_kept() const;
  std::string what_is_lost();
  std::string command_that_goes_on() const;
  [[noreturn]] void end_stopped();
  void note_verdict(const StepResult& result, int64_t step);
  Kernels choose_kernels(const std::optional<RunRecord>& was);
  // The checkpoint that the run goes on from, opened, its options compared with those of this run and the differences said;
  // null: the run begins.
  std::unique_ptr<CheckpointReader> find_checkpoint();
  // Whether all steps are done and train.output/model holds what came of them, byte for byte; says so, or what it lacks.
  bool is_complete();
  void begin(const CheckpointReader* from);
  void place_data(const CheckpointReader* from);
  TrainState state() const;
  // Whether frozen weights are those of model.path: where a checkpoint lacks them they must be, and others there are a
  // UserError.
  void place_frozen(const CheckpointReader* from, const RunRecord* was);
  void step(int64_t step);
  std::string bad_weight() const;
  void explain_nan(const std::vector<MicroBatch>& micros, int64_t step, const StepResult& result);
  void export_model();
  std::string export_text() const;  // the options that decide what the files of the exported model are like

  Config config_;
  std::string config_text_;  // what config.yaml gets: with what auto chose, without the layers of each stage that
                             // parallel.split came to
  Json options_;             // as checkpoints record them
  std::string weights_,
      began_with_;  // checksum of what model.path holds, and of what it held when the run began; empty: not given
  bool frozen_elsewhere_ = false;  // frozen weights are those of model.path, and left out of checkpoints
  std::string why_;                // of what precision.compute=auto and bf16_products=auto chose; empty: nothing
  std::string backend_;
  Log& log_;
  World* world_;
  Ranks ranks_;
  RunLayout layout_;
  TrafficMeter meter_;
  Types types_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Dataset> train_data_, valid_data_;
  std::vector<TokensInUse> tokens_in_use_;
  std::vector<std::string> data_notes_, data_warnings_;
  std::optional<int32_t> end_token_;  // of answers, when conversations are trained on
  std::string chat_template_;         // that they were rendered with, if not the tokenizer's own
  DataFingerprint fingerprint_;       // of the sources
  DataHistory history_;               // which samples the steps take
  std::unique_ptr<StepEngine> engine_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::unique_ptr<Loader> loader_;
  std::vector<std::unique_ptr<Hook>> hooks_;
  std::unique_ptr<FaultInjection> injection_;  // null: none
  SpikeGuard spikes_{config_.health};
  PlateauRate plateau_{config_.schedule, config_.optimizer.lr};
  std::map<int64_t, bool> unhealthy_;  // of checkpoints under way: the verdict of health.embedding_norm
  std::optional<StepReport> last_;
  double peak_flops_ = 0, step_seconds_ = 0;  // of the machine at most; of a step, as estimated before the first
  std::string instructions_;                  // of the kernels: recorded in checkpoints
  CheckpointLine line_;                       // which checkpoints led here
  std::string from_;                          // the checkpoint that the run goes on from
  int64_t done_ = 0, tokens_ = 0;
  StepWindow window_;  // since the last line; in checkpoints, so that a resumed run shows the same means
  int64_t checkpoint_bytes_ = 0, model_bytes_ = 0;  // of all ranks
  std::optional<int64_t> saved_;                    // the newest step with a complete checkpoint, as this rank knows
  std::string not_saved_;                           // why the save after it failed
};

}  // namespace ravine

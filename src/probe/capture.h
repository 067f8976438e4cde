// Keeps what the calls of a run read and write, as probe.dump says, in a dump (probe/dump_log.h). It changes nothing of the
// run: it reads, on its own memory, and between the steps that it was asked for it is not even called.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/step_ranges.h"
#include "probe/dump_log.h"
#include "train/step_watch.h"

namespace ravine {

class Capture : public StepWatch, public Observer {
 public:
  // A folder that holds something else is a UserError; nothing is written yet.
  explicit Capture(const DumpOption& option);

  void begin(OpenedRun& run, int64_t done) override;
  void begin_step(int64_t step) override;
  void before_update() override;
  void end_step(const StepResult& result, const UpdateRates& rates, double loss_scale) override;

  void before(const CallInfo& call) override;  // what it reads
  void after(const CallInfo& call) override;   // what it has written

  int64_t records() const { return records_; }         // so far, of this process
  const std::string& ended() const { return ended_; }  // the error that ended the capture; "": none

 private:
  // What is noted of one call, or of the state of the run.
  struct Noted {
    DumpRecord record;
    TensorView view;
  };
  struct Place {
    std::string file, stored;
  };
  // Figures of tensors that no call has written since they were taken: what one call writes and the next ones read is read once.
  struct Known {
    TensorView view;
    TensorFigures figures;
  };
  bool only_calls_write(const DumpRecord& r) const;
  TensorFigures figures_of_noted(const Noted& n);
  void forget_passes();
  void forget_written(const CallInfo& call);
  bool wants_path(std::string_view path) const;
  bool wants_phase(Phase phase) const;
  void note_call(const CallInfo& call, bool output);
  void note_state(int64_t step);
  void keep(std::vector<Noted> noted);
  bool write_tensors(std::vector<Noted>& noted);
  void drop_step();
  void end_capture(const std::string& why);

  DumpOption option_;
  StepRanges steps_;
  OpenedRun* run_ = nullptr;
  std::unique_ptr<DumpLog> log_;  // null: this rank keeps nothing, or no more
  int rank_ = 0;
  int64_t step_ = 0;            // under way; 0: none that is kept
  int64_t step_begins_ = 0;     // size of the log before it
  int64_t state_of_ = -1;       // the step behind which parameters were noted last
  bool wrote_nan_ = false;      // a call of this step
  bool updating_ = false;       // the update of this step has begun
  int64_t tensor_bytes_ = 0;    // of files, of this process
  int64_t tensors_before_ = 0;  // of which before this step
  int64_t files_ = 0;           // of this step
  int64_t records_ = 0;
  std::string ended_;
  bool keeps_figures_ = false;  // of one rank without offload: what others send, or a disk, is written by no call
  std::vector<Known> known_;
  std::vector<std::string> step_files_;  // that this step has made
  // Where tensors of the step under way lie already, by checksums, type and shape: one that several calls read is written once.
  std::map<std::tuple<uint64_t, uint64_t, DType, std::string>, Place> written_;
};

}  // namespace ravine

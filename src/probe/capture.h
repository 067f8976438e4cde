// Writes the inputs and outputs of a run's calls to a dump (probe.dump; probe/dump_log.h). The run is not changed: the
// capture only reads, with its own memory. Between the selected steps it is not called.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/step_ranges.h"
#include "probe/dump_log.h"
#include "train/step_observer.h"

namespace ravine {

// An observer that writes the calls of the selected steps of a run to a dump. Each rank has one.
class Capture : public StepObserver, public Observer {
 public:
  // Checks the folder of the dump, and writes nothing yet. A folder with other files than a dump is a UserError.
  explicit Capture(const DumpOption& option);

  void begin(OpenedRun& run, int64_t done) override;
  void begin_step(int64_t step) override;
  void before_update() override;
  void end_step(const StepResult& result, const UpdateRates& rates, double loss_scale) override;

  void before(const CallInfo& call) override;  // records the inputs of a call
  void after(const CallInfo& call) override;   // records the outputs of a call

  int64_t records() const { return records_; }         // number of records that this process has written
  const std::string& ended() const { return ended_; }  // the error that ended the capture; "": none

 private:
  // A tensor of a call or of the state of the run, with its record.
  struct Noted {
    DumpRecord record;
    TensorView view;
  };
  struct WrittenFile {
    std::string file, stored;
  };
  // A tensor whose figures are known, until a call writes it. So a tensor that several calls read is read only once for
  // the dump.
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
  std::unique_ptr<DumpLog> log_;  // null: this rank captures nothing, or no more
  int rank_ = 0;
  int64_t step_ = 0;            // current step; 0: not captured
  int64_t step_begins_ = 0;     // size of the log before the step
  int64_t state_of_ = -1;       // the last step after which parameters were noted
  bool wrote_nan_ = false;      // a call of this step wrote NaN
  bool updating_ = false;       // the update of this step has started
  int64_t tensor_bytes_ = 0;    // bytes of tensor files of this process
  int64_t tensors_before_ = 0;  // tensor_bytes_ before this step
  int64_t files_ = 0;           // of this step
  int64_t records_ = 0;
  std::string ended_;
  bool keeps_figures_ = false;  // one rank without offload: only there all writes are calls
  std::vector<Known> known_;
  std::vector<std::string> step_files_;  // files that this step has made
  // Files of the current step, by checksums, type and shape: a tensor that several calls read is written once.
  std::map<std::tuple<uint64_t, uint64_t, DType, std::string>, WrittenFile> written_;
};

}  // namespace ravine

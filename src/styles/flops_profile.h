// flops_profiler of DeepSpeed: parameters, multiply-accumulates (MACs) and time of the forward pass, by module, once in
// a run (deepspeed/profiling/flops_profiler/profiler.py, 0.14).
//
// The profile covers the last micro batch of the first rank, in step profile_step + 1. Modules are the paths of
// Ravine's calls and parameters. MACs count matrix products and attention; flops count every call. The time of a module
// is the sum over its calls. The forward calls of the loss, which run within Ravine's backward pass, are included.
// Latencies are the times of the micro batch and of the update.
#pragma once
#include <memory>

#include "dialects/trainer_outputs.h"
#include "train/step_observer.h"

namespace ravine {

class ModuleTree;  // an observer that sums the calls by path

// An observer that profiles one step of a run, and writes DeepSpeed's report on it to keys.output_file; "": to the log.
// If the file cannot be written, a warning is logged.
class FlopsProfile : public StepObserver {
 public:
  explicit FlopsProfile(FlopsProfilerKeys keys);
  ~FlopsProfile() override;
  void begin(OpenedRun& run, int64_t done) override;
  void begin_step(int64_t step) override;
  void before_update() override {}
  void end_step(const StepResult& result, const UpdateRates& rates, double loss_scale) override;

 private:
  FlopsProfilerKeys keys_;
  OpenedRun* run_ = nullptr;
  std::unique_ptr<ModuleTree> modules_;  // null if this step is not profiled
};

}  // namespace ravine

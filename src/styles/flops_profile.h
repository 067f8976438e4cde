// flops_profiler of DeepSpeed: parameters, multiply-accumulates (MACs) and time of the forward pass, by module, once in a run
// (deepspeed/profiling/flops_profiler/profiler.py, 0.14).
//
// The profile is of the last micro batch of the first rank, in the step that profile_step others lie before. Modules are the
// paths of our calls and parameters. MACs are those of matrix products and attention; flops are those of every call. The time of
// a module is that of its calls. Those of the loss count too, which run within our backward pass. Latencies are those of the micro batch, and of the update.
#pragma once
#include <memory>

#include "dialects/trainer_outputs.h"
#include "train/step_watch.h"

namespace ravine {

class ModuleTree;  // sees the calls, and adds them up by path

class FlopsProfile : public StepWatch {
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
  std::unique_ptr<ModuleTree> modules_;  // null: this step is not profiled
};

}  // namespace ravine

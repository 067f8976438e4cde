// Sections log and health: the reports of a run, and the steps and checkpoints that it rejects.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/bounds.h"
#include "config/choices.h"
#include "config/option.h"

namespace ravine {

struct LogOptions {
  int64_t every = 1;
  bool tensorboard = true;
  std::string local_norms;
  LogStyle style = LogStyle::ravine;
  int64_t sink = 0;
  std::vector<std::string> monitor;
  int64_t monitor_every = 1;
  std::string monitor_target;
  double baseline = 0;
  std::string tensorboard_dir;
  int64_t tensorboard_every = 0;
  std::vector<std::string> tensorboard_omit, tensorboard_monitor;
  std::vector<std::string> figures;
  template <class V>
  void each(V&& v) {
    v("every", every, "steps between log lines; a line has the means over these steps",
      between(1, kMostSteps) & may_change() & common());
    v("tensorboard", tensorboard, "write TensorBoard event files", may_change());
    v("local_norms", local_norms, "parameters whose gradients are measured on each rank before reduction; empty: none",
      metavar("GLOB") & may_change() & detail("A glob pattern. Measured are the sum of squares and its root."));
    v("style", style, "format of log lines and of TensorBoard names: ravine, mindformers or megatron", may_change());
    v("sink", sink, "steps per device call of MindFormers (sink_size), for log lines and checkpoint names; 0: none",
      between(0, kMostSteps) & may_change());
    v("monitor", monitor, "quantities that get separate log lines in each step",
      one_of({"local_loss", "device_local_loss", "local_norm", "device_local_norm", "optimizer_state", "weight_state",
              "throughput", "drop_rate"}) &
          may_change());
    v("monitor_every", monitor_every, "steps between the lines of log.monitor", between(1, kMostSteps) & may_change());
    v("monitor_target", monitor_target, "parameters that get monitor lines, a regular expression; empty: all",
      metavar("REGEX") & may_change() &
          detail("The expression is matched with the names that MindFormers has for parameters."));
    v("baseline", baseline, "reference throughput for log.monitor, in samples per second and rank; 0: none",
      between(1e-9, 1e12) & or_zero() & may_change());
    v("tensorboard_dir", tensorboard_dir, "folder of event files; empty: train.output/tensorboard",
      writes() & metavar("DIR") & may_change() &
          detail("Under the style of MindFormers each rank that writes has a folder rank_R in it."));
    v("tensorboard_every", tensorboard_every, "steps between points in event files; 0: log.every",
      between(0, kMostSteps) & may_change());
    v("tensorboard_omit", tensorboard_omit, "tags of scalars that event files leave out",
      one_of({"learning-rate", "batch-size", "loss-scale", "world-size", "grad-norm", "iteration-time", "throughput",
              "B-samples-per-day", "mem-allocated-bytes", "lm-loss-validation-ppl", "expert_load"}) &
          may_change() &
          detail(
              "The tags are those of the styles of MindFormers and Megatron. A blank in a tag is written as a hyphen. A tag goes with its twin over samples."));
    v("tensorboard_monitor", tensorboard_monitor, "quantities of log.monitor that event files get",
      one_of({"local_loss", "device_local_loss", "local_norm", "device_local_norm", "optimizer_state", "weight_state",
              "throughput"}) &
          may_change());
    v("figures", figures, "extra figures of each step: norm of the weights, zeros in the gradients, TFLOP/s",
      one_of({"weight_norm", "gradient_zeros", "tflops"}) & may_change() &
          detail(
              "The figures stand in log lines and event files. The norm is that of all weights after the update; TFLOP/s are per rank."));
  }
};

bool monitors(const LogOptions& log, std::string_view what);  // true if log.monitor or log.tensorboard_monitor has it
bool watches_norms(const LogOptions& log);                    // true if either has local norms of gradients
int64_t steps_between_points(const LogOptions& log);          // steps between points of the event files

struct HealthOptions {
  double skip_norm = 0, stop_norm = 0, embedding_norm = 0;
  bool stop_not_finite = false;
  int64_t skip_count = 0;
  template <class V>
  void each(V&& v) {
    v("skip_norm", skip_norm, "skip a step whose gradient norm is larger or not finite; 0: skip none",
      between(1e-12, 1e12) & or_zero() & may_change() &
          detail("The data of a skipped step is used up, and nothing is learned from it."));
    v("stop_norm", stop_norm, "end the run at the first step whose gradient norm is at least this; 0: never",
      between(1e-12, 1e12) & or_zero() & may_change() &
          detail(
              "The exit status is 1, and the update is not made. train.output/abnormal_global_norm.json names the step. A run that meets this step again goes on."));
    v("stop_not_finite", stop_not_finite, "end the run at a step whose loss or gradient norm is not finite",
      may_change() & detail("This applies even if a loss scale or health.skip_norm would skip the step."));
    v("skip_count", skip_count, "skipped steps in a row that end the run with exit status 1; 0: never",
      between(0, kMostSteps) & may_change());
    v("embedding_norm", embedding_norm, "pipelines: a checkpoint with a larger embedding gradient is unhealthy; 0: not judged",
      between(1e-12, 1e18) & or_zero() & may_change() &
          detail(
              "Judged is the sum of squares of the embedding's gradient on each rank of the first stage. A sum that is not finite is unhealthy too. health_ckpts.json keeps the verdicts. A resume takes the newest healthy checkpoint."));
  }
};

}  // namespace ravine

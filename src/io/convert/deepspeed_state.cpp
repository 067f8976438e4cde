#include "io/convert/deepspeed_state.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "config/bounds.h"
#include "io/convert/deepspeed.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/trainer_state.h"
#include "io/convert/zero_checkpoint.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// Returns Ravine's name of an optimizer state of torch or DeepSpeed; "" if it is not read.
std::string our_state(const std::string& key, const std::vector<std::string>& all) {
  const bool first = std::find(all.begin(), all.end(), "exp_avg") != all.end();
  if (key == "exp_avg") return "m";
  if (key == "exp_avg_sq") return first ? "v" : "sum";  // without exp_avg: DeepSpeedCPUAdagrad
  if (key == "sum") return "sum";
  if (key == "momentum_buffer") return "momentum";
  return "";
}

// True if the folder was written completely: this file is written last.
bool is_whole(const std::string& folder) {
  std::error_code error;
  return fs::is_regular_file(folder + "/latest", error) || fs::is_regular_file(folder + "/latest_universal", error);
}

}  // namespace

std::map<int64_t, std::string> deepspeed_checkpoints(const std::string& folder, bool whole) {
  std::map<int64_t, std::string> out = trainer_checkpoints(folder, false);
  if (whole) std::erase_if(out, [](const auto& at) { return !is_whole(at.second); });
  return out;
}

ForeignState open_deepspeed_state(const std::string& path, const Json& model, const std::string& where, int64_t global_batch,
                                  int64_t data_steps) {
  const ZeroRun run = read_zero_run(path);
  if (static_cast<double>(run.steps) > kMostSteps)
    throw UserError(fmt::format("global_steps is {}", run.steps), run.folder,
                    fmt::format("it counts from 0 to {:.0f}", kMostSteps), "use another checkpoint");
  ForeignState out;
  out.where = run.folder;
  out.step = run.steps;
  out.scalars = {{"step", run.steps},
                 {"tokens", 0},
                 {"optimizer_steps", std::min(run.updates, run.steps)},
                 {"global_batch", global_batch},
                 {"skipped_steps", run.skipped},
                 {"samples", run.samples}};
  if (!run.lr_scheduler.is_null()) out.scalars["lr_scheduler"] = run.lr_scheduler;
  const auto data_at = [&](int64_t sample) {
    out.scalars["data"] = {{"sources", Json::array()},
                           {"segments", {{{"step", run.steps}, {"sample", sample}, {"global_batch", global_batch}}}}};
  };
  const bool same = run.samples == 0 || run.samples == run.steps * global_batch;
  if (!same) data_at(run.samples);
  if (same) take_kept_scalars(run.kept, out.scalars);
  if (!run.loss_scale.is_null()) out.scalars["loss_scale"] = run.loss_scale;
  if (data_steps >= 0) data_at(data_steps * global_batch);

  const Geometry g = geometry_of(model, where);
  const auto take = [&](Weights w, const std::string& prefix, bool moments) {
    w.config = model, w.config_where = where;
    from_family_files(w, g);
    check_weights(w, g, false, moments);
    for (const Param& p : g.model->params().params()) {
      const auto it = w.tensors.find(p.name);
      if (!p.tied && it != w.tensors.end()) out.tensors.emplace(prefix + p.name, it->second);
    }
  };
  take(read_deepspeed(path, model, where), "weights/", false);
  for (const std::string& key : run.states) {
    const std::string ours = our_state(key, run.states);
    if (ours.empty()) continue;
    Weights w;
    w.tensors = read_zero_state(path, key);
    take(std::move(w), ours + "/", true);
  }
  return out;
}

}  // namespace ravine

#include "io/convert/megatron_state.h"
#include "io/convert/megatron_arguments.h"

#include <algorithm>
#include <filesystem>

#include "config/bounds.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/megatron_folder.h"
#include "io/convert/megatron_place.h"
#include "io/convert/torch_elements.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

// Returns the state of the loss scale after `steps` steps; null if it is static. growth_tracker counts good steps after
// an overflow or a growth.
Json loss_scale_of(const TorchFile& f, int64_t steps) {
  const Pickle& p = f.pickle();
  const auto optimizer = p.find(p.root(), "optimizer");
  const auto scaler = optimizer ? p.find(*optimizer, "grad_scaler") : std::nullopt;
  const auto entry = [&](const char* key) { return scaler ? p.find(*scaler, key) : std::nullopt; };
  const auto scale = entry("scale"), growth = entry("growth_tracker"), hysteresis = entry("hysteresis_tracker");
  const auto value = scale ? torch_number(f, *scale) : std::nullopt;
  const auto good = growth ? p.integer(*growth) : std::nullopt;
  if (!value || !good || *good < 0 || *good > steps) return Json();
  return {{"scale", *value},
          {"step", steps},
          {"last_overflow", steps - 1 - *good},
          {"hysteresis", std::max<int64_t>(hysteresis ? p.integer(*hysteresis).value_or(1) : 1, 1)}};
}

// Returns the step. The name of a folder iter_NNNNNNN must agree.
int64_t iteration_of(const TorchFile& f, const std::string& folder) {
  const Pickle& p = f.pickle();
  const auto field = p.find(p.root(), "iteration");
  const auto steps = field ? torch_whole_number(f, *field) : std::nullopt;
  const auto refuse = [&](const std::string& what, const std::string& rule) {
    throw UserError("bad iteration: " + what, f.path() + ": iteration", rule, "use another checkpoint");
  };
  if (!steps) refuse(field ? "no whole number" : "missing", "it says how many steps were made");
  if (*steps < 0 || static_cast<double>(*steps) > kMostSteps)
    refuse(std::to_string(*steps), fmt::format("it counts from 0 to {:.0f}", kMostSteps));
  if (const auto named = megatron_step(fs::path(folder).filename().string()); named && *named != *steps)
    refuse(std::to_string(*steps), fmt::format("the folder's name, {}, says {}", fs::path(folder).filename().string(), *named));
  return *steps;
}

}  // namespace

ForeignState open_megatron_state(const std::string& path, const Json& model, const std::string& where, int64_t global_batch,
                                 int64_t data_steps) {
  refuse_other_network(path, model, where);
  const MegatronFolder folder = open_megatron(path, StateKind::weights);
  const TorchFile& f = *folder.ranks[0].file;
  const Pickle& p = f.pickle();
  const auto field = [&](const char* key) { return p.find(p.root(), key); };
  const int64_t steps = iteration_of(f, folder.path);
  const int64_t samples = std::max<int64_t>(argument(f, "consumed_train_samples").value_or(0), 0);
  ForeignState out;
  out.where = folder.path;
  out.step = steps;
  out.scalars = {{"step", steps},
                 {"tokens", 0},
                 {"optimizer_steps", std::clamp<int64_t>(optimizer_steps(f), 0, steps)},
                 {"global_batch", global_batch},
                 {"samples", samples}};
  for (const char* key : {"opt_param_scheduler", "lr_scheduler"})
    if (const auto v = field(key); v && !out.scalars.contains("opt_param_scheduler"))
      out.scalars["opt_param_scheduler"] = plain_values(p, *v);
  const auto data_at = [&](int64_t sample) {
    out.scalars["data"] = {{"sources", Json::array()},
                           {"segments", {{{"step", steps}, {"sample", sample}, {"global_batch", global_batch}}}}};
  };
  const bool same = samples == 0 || samples == steps * global_batch;
  if (!same) data_at(samples);
  if (same) take_kept_scalars(kept_scalars_in(p), out.scalars);
  if (const Json scale = loss_scale_of(f, steps); !scale.is_null()) out.scalars["loss_scale"] = scale;
  if (data_steps >= 0) data_at(data_steps * global_batch);

  const Geometry g = geometry_of(model, where);
  for (const StateKind kind : {StateKind::masters, StateKind::first_moment, StateKind::second_moment}) {
    Weights w = read_megatron(path, model, where, false, kind);
    check_weights(w, g, false, is_moment(kind));
    for (const Param& param : g.model->params().params()) {
      const auto it = w.tensors.find(param.name);
      if (!param.tied && it != w.tensors.end()) out.tensors.emplace(std::string(state_prefix(kind)) + param.name, it->second);
    }
  }
  return out;
}

}  // namespace ravine

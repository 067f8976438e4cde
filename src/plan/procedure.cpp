#include "plan/procedure.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "optim/make_update_rule.h"

namespace ravine {
namespace {

constexpr int kMostDataRanks = 4096;
constexpr int64_t kMostMicro = 1024;  // sequences; larger micro batches are no faster

// Sets the bytes of `step` for the rank that needs most device memory: the maximum over the first, second and last
// stage.
void plan_step(Model& model, Backend backend, int ranks, ProcedureStep& step) {
  const Config& c = step.config;
  const RunLayout layout = run_layout(c, ranks, model);
  const auto [types, kernels] = planned_types(c, backend);
  const StepShape shape{.rows = c.train.micro_batch,
                        .columns = c.data.sequence_length,
                        .micro_batches = layout.micro_batches,
                        .leaves = layout.leaves};
  Config all_there = c;
  all_there.offload = {};
  const auto states = std::max<int64_t>(1, static_cast<int64_t>(make_update_rule(c.optimizer)->states().size()));
  const Mesh& m = layout.mesh;
  step.device = step.host = step.disk = 0;
  for (int stage : std::set<int>{0, std::min(1, m.pipeline - 1), m.pipeline - 1}) {
    Ranks fake = Ranks::fake(m, rank_of(m, {stage, 0, 0}));
    const RunMemory memory = StepEngine(model, all_there, types, kernels, shape, nullptr, &fake).memory();
    const bool half = types.compute == DType::bf16 || types.compute == DType::f16;
    // states and masters are f32
    const int64_t masters = half ? std::min(memory.weights, memory.optimizer / states) : 0;
    int64_t device = memory.total() - memory.base, host = 0, disk = 0;
    auto move = [&](OffloadTo to, int64_t bytes) {
      if (to == OffloadTo::none) return;
      device -= bytes;
      (to == OffloadTo::cpu ? host : disk) += bytes;
    };
    move(c.offload.optimizer, memory.optimizer + masters);
    move(c.offload.params, memory.weights - masters);
    if (device > step.device) step.device = device, step.host = host, step.disk = disk;
  }
}

}  // namespace

const ProcedureStep* Procedure::choice() const {
  for (auto it = steps.rbegin(); it != steps.rend(); ++it)
    if (it->possible && it->fits) return &*it;
  return nullptr;
}

Procedure walk_procedure(Model& model, const Config& requested, Backend backend, int ranks, int64_t have, bool free_batch) {
  Procedure out;
  Config c = requested;
  c.train.micro_batch = 1;
  c.train.recompute = Recompute::none;
  c.parallel.zero = 0;
  c.offload.optimizer = c.offload.params = OffloadTo::none;
  auto plan = [&](int number, const std::string& what) {
    out.steps.push_back({.number = number, .what = what, .config = c});
    ProcedureStep& step = out.steps.back();
    plan_step(model, backend, ranks, step);
    step.fits = step.device <= have;
    return step.fits;
  };
  auto nothing = [&](int number, const std::string& why) {
    const ProcedureStep before = out.steps.back();
    out.steps.push_back(before);
    out.steps.back().number = number, out.steps.back().what = why, out.steps.back().possible = false;
    return false;
  };
  const bool half = planned_types(requested, backend).types.compute != DType::f32;
  auto walk = [&] {
    c.train.recompute = Recompute::full;
    if (plan(1, "gradient checkpointing (train.recompute=full)")) return true;
    c.parallel.zero = 2;
    if (plan(2, "ZeRO 2")) return true;
    c.offload.optimizer = OffloadTo::cpu;
    if (plan(3, "ZeRO 2 and offload_optimizer cpu")) return true;
    c.parallel.zero = 3, c.offload.optimizer = OffloadTo::none;
    if (plan(4, "ZeRO 3")) return true;
    c.offload.params = OffloadTo::cpu;
    if (plan(5, "ZeRO 3 and offload_param cpu")) return true;
    c.offload.optimizer = OffloadTo::cpu;
    if (plan(6, "ZeRO 3, offload_param and offload_optimizer cpu")) return true;
    nothing(
        7,
        "lower defaults: buffers follow the blocks here, there is none to lower; a smaller data.sequence_length is another training");
    if (half)
      nothing(8, "16-bit arithmetic: it is on already");
    else if (c.precision.compute = DType::bf16; plan(8, "16-bit arithmetic (bf16)"))
      return true;
    c.offload.optimizer = c.offload.params = OffloadTo::disk;
    if (c.offload.path.empty()) c.offload.path = "/local_nvme";
    return plan(9, "ZeRO-Infinity: offload_param and offload_optimizer nvme");
  };
  if (!walk()) {
    ProcedureStep more = out.steps.back();
    for (int n = 2 * ranks; n <= kMostDataRanks && !out.ranks_enough; n *= 2) {
      more.config.parallel.data = n / (more.config.parallel.tensor * more.config.parallel.pipeline);
      more.config.train.global_batch = std::max<int64_t>(more.config.train.global_batch, more.config.parallel.data);
      if (more.config.train.global_batch % more.config.parallel.data != 0) break;
      plan_step(model, backend, n, more);
      if (more.device <= have) out.ranks_enough = n;
    }
    return out;
  }
  for (;;) {  // larger products are faster
    c.train.micro_batch *= 2;
    const int64_t data = run_layout(out.steps.back().config, ranks, model).mesh.data;
    if (free_batch) c.train.global_batch = std::max(requested.train.global_batch, c.train.micro_batch * data);
    if (c.train.micro_batch > kMostMicro || c.train.global_batch % (c.train.micro_batch * data) != 0) break;
    if (!plan(10, fmt::format("micro batches of {}", c.train.micro_batch))) break;
  }
  return out;
}

}  // namespace ravine

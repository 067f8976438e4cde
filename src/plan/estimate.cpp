#include "plan/estimate.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "base/narrow_option.h"
#include "engine/flat.h"
#include "engine/observer.h"
#include "optim/make_update_rule.h"
#include "optim/state_layout.h"
#include "parallel/stage.h"
#include "plan/machine.h"

namespace ravine {
namespace {

// Seconds to start a kernel and wake its threads: a guess.
constexpr double kCall = 4e-6;

// Sums the time of kernel calls by block of the model. Micro batches run one after the other.
class BlockWork : public Observer {
 public:
  BlockWork(const Model& model, const Types& types, const Rates& rates)
      : model_(model),
        flops_(types.compute == DType::bf16 ? rates.flops_bf16 : rates.flops_f32),
        bytes_(rates.bytes),
        share_(rates.step_share) {
    size_t n = model.blocks().size();
    costs.forward.resize(n), costs.first.resize(n), costs.later.resize(n);
  }

  void after(const CallInfo& call) override {
    if (call.phase == Phase::update) return;
    double seconds = kCall + std::max(call.flops / flops_, call.bytes / bytes_) / share_;
    size_t block = block_of(call.path);
    if (call.phase == Phase::forward)
      costs.forward[block] += seconds / 2;
    else
      (call.micro == 0 ? costs.first : costs.later)[block] += seconds;
  }

  BlockCosts costs;  // of two micro batches

 private:
  size_t block_of(std::string_view path) {
    auto inside = [&](const std::string& block) {
      return path.substr(0, block.size()) == block &&
             (path.size() == block.size() || path[block.size()] == '.' || block.empty());
    };
    if (inside(model_.blocks()[at_].path) && !model_.blocks()[at_].path.empty()) return at_;
    size_t best = at_, longest = 0;
    bool found = false;
    for (size_t b = 0; b < model_.blocks().size(); ++b)
      if (const std::string& p = model_.blocks()[b].path; inside(p) && (!found || p.size() > longest))
        best = b, longest = p.size(), found = true;
    return at_ = best;
  }

  const Model& model_;
  double flops_, bytes_, share_;
  size_t at_ = 0;
};

}  // namespace

Rates known_rates(int local) {
  Rates out;
  std::optional<MachinePeaks> known = known_machine_peaks();
  const MachinePeaks peaks = known.value_or(usual_machine());
  double share = 1.0 / std::max(1, local);
  out.flops_f32 = peaks.f32_product * share;
  out.flops_bf16 = peaks.bf16_product * share;
  out.bytes = peaks.copy_bytes * share;
  out.local = local;
  out.measured = known.has_value();
  out.step_share = known_step_share().value_or(out.step_share);
  out.messages = known_message_rates(local).value_or(guessed_messages(peaks.copy_bytes, local));
  return out;
}

BlockCosts block_costs(Model& model, const Config& config, const Types& types, const Kernels& kernels, int64_t columns,
                       const Rates& rates) {
  Config c = config;
  c.parallel.data = c.parallel.pipeline = c.parallel.expert = c.parallel.virtual_stages = 1;
  c.parallel.zero = 0;
  c.parallel.stage_layers.clear();
  c.train.recompute_layers.clear();
  BlockWork work(model, types, rates);
  Ranks fake = Ranks::fake(Mesh{1, 1, narrow_option<int>(config.parallel.tensor, "parallel.tensor")}, 0);
  const StepEngine planned(model, c, types, kernels, {.rows = config.train.micro_batch, .columns = columns, .micro_batches = 2},
                           &work, &fake);
  return work.costs;
}

std::vector<int64_t> layers_by_cost(Model& model, const Config& config, const Types& types, const Kernels& kernels,
                                    int64_t columns) {
  const MachinePeaks peaks = usual_machine();
  Rates rates;
  rates.flops_f32 = peaks.f32_product, rates.flops_bf16 = peaks.bf16_product, rates.bytes = peaks.copy_bytes;
  const BlockCosts costs = block_costs(model, config, types, kernels, columns, rates);
  auto of = [&](size_t block) { return costs.forward[block] + costs.later[block]; };
  std::vector<double> layers;
  for (size_t b = 1; b + 1 < costs.forward.size(); ++b) layers.push_back(of(b));
  int parts = narrow_option<int>(config.parallel.pipeline * config.parallel.virtual_stages, "parallel.virtual");
  if (static_cast<int>(layers.size()) < parts) return {};  // refused elsewhere, with the numbers that fit
  layers.front() += of(0);
  layers.back() += of(costs.forward.size() - 1);
  std::vector<int64_t> out;
  for (int n : split_layers(layers, parts)) out.push_back(n);
  return out;
}

namespace {

// Adds the times of data ranks: the messages after (ZeRO 2 and 3: during) the micro batches of a step, the sums after
// them, and the update.
void add_store(StepEstimate& e, Model& model, const Config& c, const RunLayout& layout, const Types& types, const Rates& rates,
               const std::vector<Unit*>& units) {
  const Mesh& m = layout.mesh;
  double wide = static_cast<double>(size_of(types.master)), narrow = static_cast<double>(size_of(types.compute)),
         micros = static_cast<double>(layout.micro_batches);
  const Sharding sharding{.mesh = m,
                          .at = {},
                          .divided = c.parallel.zero > 0,
                          .whole_below = c.parallel.whole_below(),
                          .stays_up_to = c.parallel.zero_threshold};
  for (const Bucket& b : flat_buckets(model.params(), units, sharding, types)) {
    const bool divided = b.divided();
    const int r = m.size(b.group);
    const double count = static_cast<double>(b.count), shard = count / r, owned = static_cast<double>(b.owned.count),
                 grad = static_cast<double>(size_of(b.grad_type));
    auto memory = [&](double elements, double bytes) { return kCall + elements * bytes / rates.bytes; };
    double values = (b.has_copy() ? rates.messages.gather(shard * narrow, r) : 0) +
                    (b.reads_master ? rates.messages.gather(shard * wide, r) : 0);
    if (b.trainable && r > 1) {
      double sum = rates.messages.exchange(shard * grad, r) + memory((r - 1) * shard, 3 * grad) +
                   (divided ? memory(shard, 2 * grad) : rates.messages.gather(shard * grad, r));
      bool early = c.parallel.zero >= 2;
      e.data += sum * (early ? micros : 1);
      if (early) e.leaves += (micros - 1) * memory(divided ? shard : count, 3 * grad);
      if (divided && (c.parallel.zero < 3 || b.stays)) e.data += values;
    }
    if (divided && c.parallel.zero == 3 && !b.stays) e.data += 2 * micros * values;
    if (!b.trainable) continue;
    if (c.parallel.zero < 2 && layout.leaves > 1) e.leaves += static_cast<double>(layout.leaves - 1) * memory(count, 3 * grad);
    // Norm: reads the gradient. Update: reads the gradient, reads and writes weight and states, writes a copy.
    const std::unique_ptr<UpdateRule> rule = make_update_rule(c.optimizer);
    const double states = static_cast<double>(state_bytes(*rule, b, m.tensor));
    e.update +=
        memory(owned, grad) + kCall + (owned * (grad + 2 * wide + (b.has_copy() ? narrow : 0)) + 2 * states) / rates.bytes;
  }
}

}  // namespace

StepEstimate estimate_step(Model& model, const Config& c, const RunLayout& layout, const Types& types, int64_t columns,
                           const Rates& rates, const BlockCosts& costs) {
  const Mesh& m = layout.mesh;
  StepEstimate e;
  int stages = m.pipeline, chunks = stages > 1 ? narrow_option<int>(c.parallel.virtual_stages, "parallel.virtual") : 1,
      micros = narrow_option<int>(layout.micro_batches, "train.global_batch");
  double wide = static_cast<double>(size_of(types.residual)), narrow = static_cast<double>(size_of(types.compute));
  double tokens = static_cast<double>(c.train.micro_batch * columns),
         stream = tokens * static_cast<double>(model.facts().hidden);
  // A sum over tensor ranks: exchange of pieces, addition, gathering. With sequence parallelism a sum is one half, and
  // a gathering the other.
  double piece = stream / m.tensor;
  auto tensor_sum = [&](double bytes) {
    return m.tensor == 1 ? 0.0
                         : rates.messages.exchange(piece * bytes, m.tensor) + rates.messages.gather(piece * bytes, m.tensor) +
                               stream * 3 * bytes / rates.bytes;
  };
  // With sequence parallelism the input of a product is gathered again for the gradient of its weights.
  double again = m.tensor > 1 && c.parallel.sequence && c.train.recompute != Recompute::none
                     ? rates.messages.gather(piece * narrow, m.tensor)
                     : 0;
  double message = stages > 1 ? rates.messages.message(stream * wide / (c.parallel.sequence ? m.tensor : 1)) : 0;
  double firsts = static_cast<double>(c.parallel.zero >= 2 ? layout.micro_batches : layout.leaves) /
                  micros;  // share of micro batches that start a sum
  std::vector<BlockRange> parts = split_model(model, stages * chunks, c.parallel.stage_layers);
  std::vector<double> forward, backward, compute(static_cast<size_t>(stages)), tensor(compute.size());
  for (size_t p = 0; p < parts.size(); ++p) {
    double ahead = 0, back = 0, sums_ahead = 0, sums_back = 0;
    for (size_t b = parts[p].begin; b < parts[p].end; ++b) {
      ahead += costs.forward[b];
      back += firsts * costs.first[b] + (1 - firsts) * costs.later[b];
      bool embedding = b == 0, head = b + 1 == model.blocks().size();
      if (embedding) sums_ahead += tensor_sum(wide);
      if (head) sums_back += tensor_sum(narrow);
      if (embedding || head) continue;
      sums_ahead += 2 * tensor_sum(narrow);
      sums_back += (c.train.recompute == Recompute::full ? 4 : 2) * tensor_sum(narrow) + 2 * again;
    }
    size_t stage = p % static_cast<size_t>(stages);
    compute[stage] += micros * (ahead + back);
    tensor[stage] += micros * (sums_ahead + sums_back);
    forward.push_back(ahead + sums_ahead + (p > 0 ? message : 0));
    backward.push_back(back + sums_back + (p + 1 < parts.size() ? message : 0));
  }
  e.times = pipeline_times(stages, chunks, micros, forward, backward);
  e.bubble = stages > 1 ? e.times.bubble : 0;
  e.compute = *std::max_element(compute.begin(), compute.end());
  e.tensor = *std::max_element(tensor.begin(), tensor.end());
  e.pipeline = stages > 1 ? 2.0 * micros * message : 0;
  // The stage with the longest reductions and update.
  std::vector<int> stage_of = stages_of_units(model, parts, stages);
  StepEstimate worst;
  for (int s = 0; s < stages; ++s) {
    if (s > 1 && s + 1 < stages) continue;  // middle stages are like the second one
    std::vector<Unit*> units;
    for (Unit& u : model.params().units())
      if (stage_of[u.index] == s) units.push_back(&u);
    StepEstimate one;
    add_store(one, model, c, layout, types, rates, units);
    if (one.data + one.leaves + one.update > worst.data + worst.leaves + worst.update) worst = std::move(one);
  }
  e.data = worst.data, e.leaves = worst.leaves, e.update = worst.update;
  e.seconds = e.times.length + e.data + e.leaves + e.update;
  return e;
}

}  // namespace ravine

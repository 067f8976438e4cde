#include "probe/layouts.h"

#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/philox.h"
#include "kernels/backend.h"
#include "optim/schedule.h"
#include "parallel/whole_units.h"
#include "probe/op_hashes.h"
#include "runs/open.h"
#include "runs/run_state.h"
#include "step/arithmetic.h"
#include "step/layout.h"

namespace ravine {
namespace {

constexpr int64_t kMicros = 8;

class RandomTokens : public Dataset {
 public:
  RandomTokens(int64_t columns, int64_t vocabulary, uint64_t seed) : columns_(columns), vocabulary_(vocabulary), seed_(seed) {}
  int64_t sample_count() const override { return int64_t{1} << 40; }
  int64_t columns() const override { return columns_; }
  int64_t token_count() const override { return columns_ * sample_count(); }
  Sample sample(int64_t index) const override {
    Sample s;
    for (int64_t t = 0; t < columns_; ++t) {
      auto w = philox(seed_, {static_cast<uint32_t>(t), static_cast<uint32_t>(index), 0, 0});
      s.ids.push_back(static_cast<int32_t>(w[0] % static_cast<uint64_t>(vocabulary_)));
      s.labels.push_back(static_cast<int32_t>(w[1] % static_cast<uint64_t>(vocabulary_)));
      s.positions.push_back(static_cast<int32_t>(t));
    }
    s.segments.push_back({0, static_cast<int32_t>(columns_)});
    return s;
  }
  std::string origin(int64_t) const override { return "random"; }

 private:
  int64_t columns_, vocabulary_;
  uint64_t seed_;
};

// The first n ranks of a world. The other ranks must make the same number of groups.
class FirstRanks final : public World {
 public:
  FirstRanks(World& world, int n) : world_(world), size_(n) {
    std::vector<int> ranks(static_cast<size_t>(n));
    std::iota(ranks.begin(), ranks.end(), 0);
    all_ = world.group(ranks, "world");
  }
  int rank() const override { return world_.rank(); }
  int size() const override { return size_; }
  const Group& all() const override { return *all_; }
  std::unique_ptr<Group> group(const std::vector<int>& ranks, std::string_view name) override {
    return world_.group(ranks, name);
  }

 private:
  World& world_;
  int size_;
  std::unique_ptr<Group> all_;
};

struct Case {
  Mesh mesh;
  int64_t zero = 0, virtual_stages = 1;
  bool sequence = false;
  std::optional<LayoutFault> inject;
  std::string name() const {
    std::string out = mesh.ranks() > 1 ? mesh.text() : "one rank";
    if (virtual_stages > 1) out += ", interleaved";
    if (sequence) out += ", sequence";
    if (zero > 0) out += fmt::format(", ZeRO {}", zero);
    return inject ? fmt::format("{}, with another {}", out, ravine::name(*inject)) : out;
  }
};

struct LayoutTrace {
  std::vector<double> losses, norms;
  std::map<std::string, uint64_t> weights;  // on rank 0
};

class LayoutCheck {
 public:
  LayoutCheck(const Config& config, Backend backend, World* world, const LayoutsOptions& options)
      : config_(config),
        backend_(backend),
        options_(options),
        arithmetic_(
            choose_arithmetic(config.precision, backend, world ? common_arithmetic(world->all()) : cpu_arithmetic(cpu_id()))),
        types_(Types::of(arithmetic_.compute, config.precision.gradients)) {
    config_.train.global_batch = kMicros * config.train.micro_batch;
    config_.parallel = ParallelOptions();
    config_.parallel.sum_leaves = kMicros;
    config_.parallel.zero_threshold = 256;  // small models have buckets to divide, too
    std::unique_ptr<Model> model = open_run_model(config_);
    if (config.data.train.empty()) {
      data_ = std::make_unique<RandomTokens>(config.data.sequence_length, model->facts().vocabulary,
                                             static_cast<uint64_t>(config.train.seed));
    } else {
      sources_ = open_sources(config, model->facts());
      data_ = std::move(sources_.data.train);
    }
    layers_ = model->facts().layers;
    hidden_ = model->facts().hidden;
  }

  Config config_of(const Case& c) const {
    Config config = config_;
    config.parallel.data = c.mesh.data;
    config.parallel.tensor = c.mesh.tensor;
    config.parallel.pipeline = c.mesh.pipeline;
    config.parallel.expert = c.mesh.expert;
    config.parallel.virtual_stages = c.virtual_stages;
    config.parallel.sequence = c.sequence;
    config.parallel.zero = c.zero;
    return config;
  }

  bool fits(const Case& c) const {
    if (c.sequence && config_.train.micro_batch * data_->columns() % c.mesh.tensor != 0) return false;
    try {
      run_layout(config_of(c), c.mesh.ranks(), *open_run_model(config_));
      return true;
    } catch (const UserError&) {
      return false;
    }
  }

  LayoutTrace run(const Case& layout_case, const Ranks& ranks) const {
    Config config = config_of(layout_case);
    std::unique_ptr<Model> model = open_run_model(config);
    RunLayout layout = run_layout(config, ranks.size(), *model);
    const StepShape shape{.rows = config.train.micro_batch,
                          .columns = data_->columns(),
                          .micro_batches = layout.micro_batches,
                          .leaves = layout.leaves};
    StepEngine engine(*model, config, types_, backend_kernels(backend_, arithmetic_.products), shape, nullptr, &ranks);
    engine.allocate();
    begin_weights(engine, config);
    if (layout_case.inject == LayoutFault::cut) {  // Host work: two elements swap places
      TensorView weight = engine.store().resident_values(0);
      if (weight.dtype == DType::f64)
        std::swap(weight.as<double>()[0], weight.as<double>()[1]);
      else
        std::swap(weight.as<float>()[0], weight.as<float>()[1]);
      engine.store().refresh_copies(engine.ctx());
    }
    LoaderOptions loading;
    loading.global_batch = config.train.global_batch;
    loading.micro_batch = config.train.micro_batch;
    loading.rank = ranks.at().data;
    loading.ranks = ranks.mesh().data;
    loading.round_robin = layout.round_robin;
    LayoutTrace trace;
    for (int64_t s = 0; s < options_.steps; ++s) {
      const UpdateRates rates =
          rates_of_update(config.schedule, config.optimizer.lr, config.train.steps, s + config.schedule.warmup_steps);
      std::vector<MicroBatch> micros = make_step(*data_, loading, s).micro;
      if (layout_case.inject == LayoutFault::sum) std::swap(micros.front(), micros.back());
      if (layout_case.inject == LayoutFault::mask && std::exchange(micros[0].labels[0], kIgnored) != kIgnored)
        --micros[0].valid_tokens;
      StepResult r = engine.run(micros, s + 1, rates);
      trace.losses.push_back(r.loss);
      trace.norms.push_back(r.grad_norm);
    }
    UnitExport whole(*model, engine.store(), ranks, engine.stages());
    if (!ranks.first()) {
      whole.serve();
      return trace;
    }
    for (const Unit& unit : model->params().units()) {
      whole.acquire(unit);
      for (const Param* p : unit.params)
        if (!p->tied) trace.weights[p->name] = checksum_of_view(whole.master(*p));
    }
    whole.end();
    return trace;
  }

  // Returns the bound of reordered sums after the products of all layers, each with up to `hidden` independent terms.
  double bound() const {
    double eps = types_.compute == DType::f64   ? 0x1p-52
                 : types_.compute == DType::f32 ? 0x1p-23
                 : types_.compute == DType::f16 ? 0x1p-10
                                                : 0x1p-7;
    return 4 * eps * std::sqrt(static_cast<double>(hidden_ * layers_));
  }

 private:
  Config config_;
  Backend backend_;
  const LayoutsOptions& options_;
  Arithmetic arithmetic_;
  Types types_;
  Sources sources_;
  std::unique_ptr<Dataset> data_;
  int64_t layers_ = 0, hidden_ = 0;
};

std::vector<Case> cases_for(int ranks) {
  std::vector<Case> out;
  auto add = [&](Mesh mesh, int64_t zero = 0, int64_t parts = 1, bool sequence = false) {
    if (mesh.ranks() <= ranks) out.push_back({mesh, zero, parts, sequence, std::nullopt});
  };
  for (int d : {2, 4, 8}) add({1, d, 1});
  for (int64_t zero : {1, 2, 3})
    for (int d : {2, 4}) add({1, d, 1}, zero);
  for (int p : {2, 4}) add({p, 1, 1});
  add({2, 1, 1}, 0, 2);
  for (int64_t zero : {0, 1, 2, 3}) add({2, 2, 1}, zero);
  for (int t : {2, 4}) add({1, 1, t});
  add({1, 1, 2}, 0, 1, true);
  add({1, 2, 2}, 1);
  add({2, 1, 2}, 0, 1, true);
  add({2, 2, 2}, 1);
  // Models with experts.
  auto add_experts = [&](int pipeline, int data, int tensor, int expert, int64_t zero) {
    add({.pipeline = pipeline, .data = data, .tensor = tensor, .expert = expert}, zero);
  };
  for (int64_t zero : {0, 1, 2, 3}) add_experts(1, 2, 1, 2, zero);
  for (int64_t zero : {0, 3}) add_experts(1, 4, 1, 2, zero);
  add_experts(1, 4, 1, 4, 1);
  add_experts(2, 2, 1, 2, 0);
  add_experts(1, 2, 2, 2, 1);
  return out;
}

LayoutResult compare_layouts(const Case& layout_case, const LayoutTrace& one, const LayoutTrace& other, double bound) {
  LayoutResult r;
  r.name = layout_case.name();
  r.bitwise = layout_case.mesh.tensor == 1;
  r.bound = r.bitwise ? 0 : bound;
  auto same = [](double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); };
  for (size_t s = one.losses.size(); s-- > 0;) {
    if (!same(one.norms[s], other.norms[s])) r.norms = false, r.first = fmt::format("gradient norm of step {}", s + 1);
    if (!same(one.losses[s], other.losses[s])) r.losses = false, r.first = fmt::format("loss of step {}", s + 1);
  }
  for (auto& [name, hash] : one.weights)
    if (auto found = other.weights.find(name); found == other.weights.end() || found->second != hash) {
      r.weights = false;
      if (r.first.empty()) r.first = fmt::format("weight '{}'", name);
    }
  r.difference = std::max(std::abs(one.losses[0] - other.losses[0]) / std::abs(one.losses[0]),
                          std::abs(one.norms[0] - other.norms[0]) / one.norms[0]);
  return r;
}

}  // namespace

std::vector<LayoutResult> check_layouts(const Config& config, Backend backend, World* world, const LayoutsOptions& options,
                                        const std::function<void(const LayoutResult&)>& done) {
  LayoutCheck check(config, backend, world, options);
  int ranks = world ? world->size() : 1, me = world ? world->rank() : 0;
  LayoutTrace one;
  if (me == 0) one = check.run({}, Ranks());
  std::vector<Case> cases = cases_for(ranks);
  if (options.inject) {
    cases.push_back({});
    cases.back().inject = options.inject;
  }
  std::vector<LayoutResult> results;
  for (const Case& layout_case : cases) {
    if (!check.fits(layout_case)) continue;
    int n = layout_case.mesh.ranks();
    if (n == 1) {
      if (me != 0) continue;
      results.push_back(compare_layouts(layout_case, one, check.run(layout_case, Ranks()), check.bound()));
      if (done) done(results.back());
      continue;
    }
    if (me < n) {
      FirstRanks few(*world, n);
      LayoutTrace other = check.run(layout_case, Ranks(few, layout_case.mesh));
      if (me == 0) {
        results.push_back(compare_layouts(layout_case, one, other, check.bound()));
        if (done) done(results.back());
      }
    } else {  // one group for the first n ranks, one per axis, and one for the way back over the pipeline
      const Mesh& m = layout_case.mesh;
      const int groups =
          1 + (m.pipeline > 1 ? 2 : 0) + (m.data > 1) + (m.tensor > 1) + (m.expert > 1) + (m.expert > 1 && m.data > m.expert);
      for (int i = 0; i < groups; ++i) world->group({me}, "idle");
    }
    world->all().barrier();
  }
  return results;
}

}  // namespace ravine

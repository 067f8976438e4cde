#include "probe/determinism.h"

#include <bit>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/parallel.h"
#include "base/philox.h"
#include "files/atomic.h"
#include "kernels/backend.h"
#include "optim/schedule.h"
#include "probe/reorder.h"
#include "runs/open.h"
#include "runs/run_state.h"
#include "step/arithmetic.h"

namespace ravine {
namespace fs = std::filesystem;

const std::vector<std::string>& bitwise_fusions() {
  static const std::vector<std::string> all{"add_rms_norm"};
  return all;
}

namespace {

bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

// The difference of a case from the first one.
struct RunVariant {
  std::string name;
  int threads;
  Recompute recompute;
  std::vector<std::string> unfused;
  int64_t resume_after = 0;  // 0: no resume
  bool observed = true;
  std::string inject;
};

class ThreadCount {
 public:
  explicit ThreadCount(int n) : before_(thread_count()) { set_thread_count(n); }
  ~ThreadCount() { set_thread_count(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

class Check {
 public:
  Check(const Config& config, Backend backend, const DeterminismOptions& options)
      : config_(config),
        backend_(backend),
        options_(options),
        arithmetic_(choose_arithmetic(config.precision, backend, cpu_arithmetic(cpu_id()))),
        types_(Types::of(arithmetic_.compute, config.precision.gradients)) {
    std::unique_ptr<Model> model = open_run_model(config);
    micros_ = div_exact(config.train.global_batch, config.train.micro_batch);
    if (config.data.train.empty()) {
      columns_ = config.data.sequence_length;
      for (int64_t s = 0; s < options.steps; ++s) batches_.push_back(random_step(s, model->facts().vocabulary));
    } else {
      Sources sources = open_sources(config, model->facts());
      columns_ = sources.data.train->columns();
      const LoaderOptions loader{
          .global_batch = config.train.global_batch, .micro_batch = config.train.micro_batch, .prefetch = 0};
      for (int64_t s = 0; s < options.steps; ++s) batches_.push_back(make_step(*sources.data.train, loader, s).micro);
    }
  }

  RunBits run(const RunVariant& variant, OpHashes& hashes) const {
    ThreadCount threads(variant.threads);
    RunBits trace;
    std::optional<CheckpointFolder> saved;
    if (variant.resume_after > 0) {
      saved.emplace(options_.folder);
      part(variant, hashes, trace, 0, variant.resume_after, &*saved);
    }
    part(variant, hashes, trace, variant.resume_after, options_.steps, saved ? &*saved : nullptr);
    return trace;
  }

 private:
  struct CheckpointFolder {
    explicit CheckpointFolder(const std::string& parent)
        : building((fs::path(parent) / "check-determinism").string()), path(building.folder()) {}
    AtomicFolder building;  // never published: removed at the end
    std::string path;
  };

  std::vector<MicroBatch> random_step(int64_t step, int64_t vocabulary) const {
    std::vector<MicroBatch> micros;
    for (int64_t i = 0; i < micros_; ++i) {
      MicroBatch m;
      m.index = i;
      m.rows = config_.train.micro_batch;
      m.columns = columns_;
      for (int64_t r = 0; r < m.rows; ++r) {
        int64_t sequence = step * config_.train.global_batch + i * m.rows + r;
        m.sequence_index.push_back(sequence);
        m.segments.push_back({static_cast<int32_t>(r * columns_), static_cast<int32_t>(columns_)});
        for (int64_t t = 0; t < columns_; ++t) {
          auto w = philox(static_cast<uint64_t>(config_.train.seed),
                          {static_cast<uint32_t>(t), static_cast<uint32_t>(sequence), 0, 0});
          m.ids.push_back(static_cast<int32_t>(w[0] % static_cast<uint64_t>(vocabulary)));
          m.labels.push_back(static_cast<int32_t>(w[1] % static_cast<uint64_t>(vocabulary)));
          m.positions.push_back(static_cast<int32_t>(t));
        }
      }
      m.valid_tokens = m.rows * m.columns;
      micros.push_back(std::move(m));
    }
    return micros;
  }

  // Runs steps [from, to) in a new engine. Starts from a checkpoint if from > 0, and writes one if `to` is not the end.
  void part(const RunVariant& variant, OpHashes& hashes, RunBits& trace, int64_t from, int64_t to,
            CheckpointFolder* saved) const {
    Config config = config_;
    config.train.recompute = variant.recompute;
    for (const std::string& op : variant.unfused) config.precision.unfused.push_back(op);
    std::unique_ptr<Model> model = open_run_model(config);
    StepEngine engine(*model, config, types_, backend_kernels(backend_, arithmetic_.products),
                      {config.train.micro_batch, columns_, micros_, false});
    engine.allocate();
    if (from > 0)
      restore(engine, CheckpointReader((fs::path(saved->path) / checkpoint_name(from)).string(), true));
    else
      begin_weights(engine, config);
    ReorderSum reorder(variant.inject);
    if (!variant.inject.empty()) engine.ctx().add_observer(&reorder);
    if (variant.observed) engine.ctx().add_observer(&hashes);
    for (int64_t s = from; s < to; ++s) {
      const UpdateRates rates = rates_of_update(config.schedule, config.optimizer.lr, config.train.steps, s);
      StepResult r = engine.run(batches_[static_cast<size_t>(s)], s + 1, rates);
      trace.losses.push_back(r.loss);
      trace.norms.push_back(r.grad_norm);
    }
    if (!variant.inject.empty() && !reorder.done())
      throw UserError(reorder.met() ? "no sum at '" + variant.inject + "' changes with its order"
                                    : "no product at '" + variant.inject + "'",
                      "--inject", "it must be the path of a product without bias, like model.layers.0.mlp.down_proj",
                      "name another one");
    TrainState state = state_of(engine);
    if (to < options_.steps) {
      CheckpointWriter writer;
      writer.save(saved->path, to, state, 1);
      writer.wait();
      if (auto warning = writer.take_warning()) fail("{}", *warning);
      return;
    }
    for (const StateTensor& t : state.tensors) trace.state.emplace_back(t.name, checksum_of_view(t.view));
  }

  const Config& config_;
  Backend backend_;
  const DeterminismOptions& options_;
  Arithmetic arithmetic_;
  Types types_;
  int64_t micros_ = 1, columns_ = 0;
  std::vector<std::vector<MicroBatch>> batches_;  // by step
};

}  // namespace

DeterminismCase compare_runs(const std::string& name, const RunBits& a, const RunBits& b, const OpHashes& hashes) {
  DeterminismCase c;
  c.name = name;
  c.compared = hashes.compared();
  c.op = hashes.difference();
  for (size_t s = a.losses.size(); s-- > 0;) {
    bool loss = same_bits(a.losses[s], b.losses[s]), norm = same_bits(a.norms[s], b.norms[s]);
    c.losses = c.losses && loss;
    c.norms = c.norms && norm;
    if (!loss || !norm) c.step = static_cast<int64_t>(s) + 1;
  }
  require(a.state.size() == b.state.size(), "check: {} tensors of state, and {}", a.state.size(), b.state.size());
  for (size_t i = a.state.size(); i-- > 0;)
    if (a.state[i] != b.state[i]) c.state = false, c.tensor = b.state[i].first;
  if (c.op.step > 0 && (c.step == 0 || c.op.step < c.step)) c.step = c.op.step;
  if (c.step == 0 && !c.state) c.step = static_cast<int64_t>(a.losses.size());
  return c;
}

std::vector<DeterminismCase> check_determinism(const Config& config, Backend backend, const DeterminismOptions& options,
                                               const std::function<void(const DeterminismCase&)>& done) {
  Check check(config, backend, options);
  const RunVariant first{.name = "as configured", .threads = thread_count(), .recompute = config.train.recompute};
  std::vector<RunVariant> variants{first, first};
  variants[0].name = "again";
  variants[1].name = "again, unobserved";
  variants[1].observed = false;
  auto add = [&](const std::string& name) -> RunVariant& {
    variants.push_back(first);
    variants.back().name = name;
    return variants.back();
  };
  for (int n : {1, 2, 3, 4})
    if (n != first.threads) add(fmt::format("{} thread{}", n, n > 1 ? "s" : "")).threads = n;
  for (const Recompute r : {Recompute::none, Recompute::cheap, Recompute::full})
    if (r != first.recompute) add(fmt::format("recompute {}", name(r))).recompute = r;
  for (const std::string& op : bitwise_fusions())
    if (std::find(config.precision.unfused.begin(), config.precision.unfused.end(), op) == config.precision.unfused.end())
      add("unfused " + op).unfused = {op};
  if (options.steps > 1) add("resume").resume_after = options.steps / 2;
  if (!options.inject.empty()) add("sum reordered").inject = options.inject;

  OpHashes reference;
  const RunBits expected = check.run(first, reference);
  std::vector<DeterminismCase> cases;
  for (const RunVariant& variant : variants) {
    OpHashes hashes(&reference);
    RunBits trace = check.run(variant, hashes);
    cases.push_back(compare_runs(variant.name, expected, trace, hashes));
    require(!variant.observed || cases.back().compared > 0, "check: no kernel call of '{}' was compared", variant.name);
    if (done) done(cases.back());
  }
  return cases;
}

}  // namespace ravine

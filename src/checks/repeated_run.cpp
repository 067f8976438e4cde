#include "checks/repeated_run.h"

#include <algorithm>

#include "base/log.h"
#include "probe/spread.h"
#include "train/trainer.h"

namespace ravine {
namespace {

// Ops whose unfused form sums in another order.
constexpr const char* kReordered[] = {"attention", "loss_head", "qkv", "gate_up"};

// Notes loss, norm and rate of each step, and moves the parameters before the first.
class CurveOfRun : public StepObserver {
 public:
  explicit CurveOfRun(const OtherRoundings& way) : way_(way) {}
  void begin(OpenedRun& run, int64_t) override {
    if (way_.seed == 0) return;
    StepEngine& engine = *run.engine;
    const DType type = engine.store().buckets().empty() ? DType::f32 : engine.store().buckets()[0].master_type;
    move_parameters(engine.store(), type, way_.seed);
    engine.store().refresh_copies(engine.ctx());
  }
  void begin_step(int64_t step) override { step_ = step; }
  void before_update() override {}
  void end_step(const StepResult& r, const UpdateRates& rates, double) override {
    curve.add(step_, r.loss, &r.grad_norm, &rates.lr);
  }
  TrainingCurve curve;

 private:
  const OtherRoundings way_;
  int64_t step_ = 0;
};

}  // namespace

std::string OtherRoundings::name() const {
  if (reorder) return "sums in another order";
  return seed > 0 ? fmt::format("parameters moved by a rounding, {}", seed) : "as configured";
}

Config without_updates(Config config) {
  std::erase_if(config.sources,
                [](const auto& s) { return s.first.starts_with("optimizer.") || s.first.starts_with("schedule."); });
  config.optimizer = {};
  config.optimizer.type = OptimizerType::sgd;
  config.optimizer.lr = 0, config.optimizer.momentum = 0, config.optimizer.weight_decay = 0;
  config.schedule = {};
  config.schedule.type = ScheduleType::constant;
  config.schedule.warmup_steps = 0;
  config.moe.bias_update_rate = 0;
  config.health = {};
  return config;
}

TrainingCurve repeat_run(const Config& given, Backend backend, World* world, int64_t steps, const OtherRoundings& way) {
  Config config = given;
  config.checkpoint.resume = kResumeNone;
  config.train.output += "/check";  // a folder that does not exist, and is not made
  config.probe.dump.clear();
  config.log.tensorboard_dir.clear();
  if (way.reorder)
    for (const char* op : kReordered)
      if (std::find(config.precision.unfused.begin(), config.precision.unfused.end(), op) == config.precision.unfused.end())
        config.precision.unfused.emplace_back(op);
  Log log;
  log.quiet(true);
  CurveOfRun watch(way);
  Trainer trainer(config, backend, log, world);
  trainer.add_observer(watch);
  trainer.replay(steps);
  watch.curve.name = way.name(), watch.curve.kind = "run of Ravine";
  const auto compute = trainer.config().precision.compute;
  if (compute) watch.curve.compute = ravine::name(*compute);
  return watch.curve;
}

}  // namespace ravine

// Optimizer: learning rate and decay of each parameter, clipping, steps and moments. Expected values are computed here
// from the formulas of torch.optim, an element at a time, in double; the ref backend in f64 differs by roundings of
// 2^-53.
#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/ctx.h"
#include "kernels/backend.h"
#include "parallel/flat_store.h"
#include "parallel/stash.h"

namespace ravine {
namespace test_optim_optimizer {

// Two units: joined q, k, v (k is frozen) with a bias each, a norm; and one that is frozen whole.
struct Small {
  Small() {
    Unit& layer = set.unit("layer");
    set.add(layer, {"norm", {3}, {}, {}, false, Use::vector});
    set.add_joined(layer, {{"q", {2, 3}}, {"k", {2, 3}}, {"v", {2, 3}}});
    set.add_joined(layer, {{"qb", {2}, {}, {}, false, Use::vector}, {"kb", {2}, {}, {}, false, Use::vector}});
    Unit& fixed = set.unit("fixed");
    set.add(fixed, {"table", {4, 3}, {}, {}, true, Use::table});
    Unit& head = set.unit("head");
    set.add(head, {"out", {4, 3}});
    set.add_joined(head,
                   // Adjacent parameters that differ in one of the two.
                   {{"a", {2, 3}}, {"b", {2, 3}}, {"c", {2, 3}}, {"d", {2, 3}}});
    set.find("k")->policy.trainable = set.find("kb")->policy.trainable = set.find("table")->policy.trainable = false;
    set.find("q")->policy.lr_mult = 0.5;
    set.find("v")->policy.wd_mult = 3;
    set.find("out")->policy.lr_mult = 2;
    set.find("out")->policy.wd_mult = 0;
    set.find("b")->policy.wd_mult = set.find("c")->policy.wd_mult = 2;
    set.find("c")->policy.lr_mult = set.find("d")->policy.lr_mult = 3;
  }
  ParamSet set;
};

struct Trial {
  explicit Trial(const OptimizerOptions& o)
      : options(o), store(small.set, Types::of(DType::f64), DeviceKind::cpu), stash(make_stash(Recompute::none)) {
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(),
    s.types = Types::of(DType::f64);
    c = std::make_unique<Ctx>(s);
    optimizer = std::make_unique<Optimizer>(options, store, DeviceKind::cpu);
    for (const Param& p : small.set.params())
      for (int64_t i = 0; i < p.shape.count(); ++i)
        store.master(p).as<double>()[i] =
            weights[p.name].emplace_back(std::sin(7.0 * static_cast<double>(i) + static_cast<double>(p.index)));
  }
  // Gradients of `size` times arbitrary numbers, which depend on the step. Frozen members of joined products get
  // gradients too, as one product makes them all.
  double begin(int step, double size) {
    for (Unit& u : small.set.units()) store.open_grads(*c, u);
    double squares = 0;
    for (const Param& p : small.set.params()) {
      gradients[p.name].clear();
      bool accumulate = true;
      TensorView g = store.add_to_grad(p, accumulate);
      for (int64_t i = 0; i < p.shape.count(); ++i) {
        double x = size * std::cos(static_cast<double>(3 * i + 5 * step) + static_cast<double>(p.index));
        gradients[p.name].push_back(x);
        if (!g.absent()) g.as<double>()[i] = x;
        if (p.policy.trainable) squares += x * x;
      }
      EXPECT_EQ(g.absent(), p.name == "table") << p.name;
      if (!g.absent()) EXPECT_FALSE(accumulate);
    }
    store.finish_grads(*c);
    return std::sqrt(squares);
  }
  void update(double lr, double norm, const std::function<void(const Unit&)>& before = {}) {
    optimizer->update(*c, lr, norm, before);
    store.end_step();
  }
  // One step of the formulas on `weights`.
  void expect_step(int t, double lr, double scale) {
    for (const Param& p : small.set.params()) {
      if (!p.policy.trainable) continue;
      double rate = lr * p.policy.lr_mult,
             decay = p.decay || options.decay == DecayOf::all ? options.weight_decay * p.policy.wd_mult : 0;
      std::vector<double>&w = weights[p.name], &m = first[p.name], &v = second[p.name];
      m.resize(w.size()), v.resize(w.size());
      for (size_t i = 0; i < w.size(); ++i) {
        double g = scale * gradients[p.name][i];
        if (options.type == OptimizerType::adamw) w[i] *= 1 - rate * decay;
        if (options.type != OptimizerType::adamw) g += decay * w[i];
        if (options.type == OptimizerType::sgd) {
          m[i] = t == 1 ? g : options.momentum * m[i] + (1 - options.dampening) * g;
          w[i] -= rate * (options.momentum == 0 ? g : options.nesterov ? g + options.momentum * m[i] : m[i]);
        } else {
          m[i] = options.betas[0] * m[i] + (1 - options.betas[0]) * g;
          v[i] = options.betas[1] * v[i] + (1 - options.betas[1]) * g * g;
          const double first = options.bias_correction ? 1 - std::pow(options.betas[0], t) : 1,
                       second = options.bias_correction ? 1 - std::pow(options.betas[1], t) : 1;
          w[i] -= rate * (m[i] / first) / (std::sqrt(v[i] / second) + options.eps[0]);
        }
      }
    }
  }
  void compare(const std::string& what) {
    for (const Param& p : small.set.params())
      for (int64_t i = 0; i < p.shape.count(); ++i) {
        double got = store.master(p).as<double>()[i], want = weights[p.name][static_cast<size_t>(i)];
        if (!p.policy.trainable)
          EXPECT_EQ(got, want) << what << ": " << p.name << " is frozen";
        else
          EXPECT_NEAR(got, want, 16 * epsilon(DType::f64))
              << what << ": " << p.name << " [" << i << "]";  // numbers of size 1, a dozen operations a step
      }
  }
  Small small;
  OptimizerOptions options;
  HeapArena arena;
  Kernels kernels = ref_kernels();
  FlatStore store;
  std::unique_ptr<Stash> stash;
  std::unique_ptr<Ctx> c;
  std::unique_ptr<Optimizer> optimizer;
  std::map<std::string, std::vector<double>> weights, gradients, first, second;
};

OptimizerOptions options(OptimizerType type) {
  OptimizerOptions o;
  o.type = type;
  o.betas = {0.7, 0.9};
  o.eps = {1e-3};
  o.weight_decay = 0.25;
  o.clip_norm = 2;
  o.momentum = 0.6;
  return o;
}

TEST(Optimizer, StepsAreThoseOfTheFormulas) {
  std::map<std::string, OptimizerOptions> cases = {{"adamw", options(OptimizerType::adamw)},
                                                   {"adam", options(OptimizerType::adam)},
                                                   {"momentum", options(OptimizerType::sgd)}};
  cases["plain sgd"] = cases["nesterov"] = cases["momentum"];
  cases["plain sgd"].momentum = 0;
  cases["nesterov"].nesterov = true;
  cases["momentum"].dampening = 0.3;
  for (auto& [name, o] : cases) {
    Trial t(o);
    for (int step = 1; step <= 4; ++step) {
      const double norm = t.begin(step, step % 2 ? 0.1 : 3.0), lr = 0.01 * step;
      EXPECT_NEAR(t.optimizer->grad_norm(*t.c, SelfGroup()), norm, 4 * epsilon(DType::f64) * norm)
          << name << ": what is frozen does not count";
      EXPECT_EQ(norm > o.clip_norm, step % 2 == 0);
      t.expect_step(step, lr, std::min(1.0, o.clip_norm / (norm + 1e-6)));
      t.update(lr, norm);
      t.compare(fmt::format("{}, step {}", name, step));
    }
    EXPECT_EQ(t.optimizer->steps(), 4);
  }
}

TEST(Optimizer, NoClippingWhereItIsOff) {
  OptimizerOptions o = options(OptimizerType::sgd);
  o.clip_norm = 0;
  Trial t(o);
  double norm = t.begin(1, 100);
  t.expect_step(1, 0.01, 1);
  t.update(0.01, norm);
  t.compare("not clipped");
}

// As MindSpore's AdamWeightDecay, and Adam of DeepSpeed with bias_correction false.
TEST(Optimizer, MomentsAreTakenAsTheyAreWithoutCorrection) {
  for (OptimizerType type : {OptimizerType::adamw, OptimizerType::adam}) {
    OptimizerOptions o = options(type);
    o.bias_correction = false;
    Trial trial(o);
    for (int step = 1; step <= 3; ++step) {
      const double norm = trial.begin(step, 0.1);
      trial.update(0.01, norm);
      trial.expect_step(step, 0.01, 1);
    }
    trial.compare("without correction");
  }
}

TEST(Optimizer, NormsAndBiasesDecayWhereAllDo) {
  OptimizerOptions o = options(OptimizerType::adamw);
  o.decay = DecayOf::all;
  Trial t(o);
  const double norm = t.begin(1, 0.1);
  t.expect_step(1, 0.5, 1);
  t.update(0.5, norm);
  t.compare("all decays");
}

TEST(Optimizer, StepsGoOnWhereTheyAreSet) {
  Trial t(options(OptimizerType::adamw));
  t.optimizer->set_steps(9);
  double norm = t.begin(1, 0.1);
  t.expect_step(10, 0.01, 1);
  t.update(0.01, norm);
  t.compare("the tenth step");
  EXPECT_EQ(t.optimizer->steps(), 10);
}

TEST(Optimizer, UnitsAreAnnouncedBeforeTheyChange) {
  Trial t(options(OptimizerType::adamw));
  double norm = t.begin(1, 1);
  std::vector<std::string> updated;
  t.update(0.01, norm, [&](const Unit& u) {
    if (!updated.empty() && updated.back() == u.name) return;  // it is called for each of its buffers
    updated.push_back(u.name);
    for (const Param* p : u.params)
      EXPECT_EQ(t.store.master(*p).as<double>()[0], t.weights[p->name][0]) << p->name << " has changed already";
  });
  EXPECT_EQ(updated, (std::vector<std::string>{"layer", "head"})) << "a unit that is frozen whole does not change";
}

TEST(Optimizer, MomentsByNameAndTheirBytes) {
  Trial adam(options(OptimizerType::adamw)), sgd(options(OptimizerType::sgd));
  OptimizerOptions plain = options(OptimizerType::sgd);
  plain.momentum = 0;
  Trial none(plain);
  auto names = [](const Trial& t) {
    std::string out;
    for (const StateDeclaration& s : t.optimizer->rule().states()) out += s.name + " ";
    return out;
  };
  EXPECT_EQ(names(adam), "m v ");
  EXPECT_EQ(names(sgd), "momentum ");
  EXPECT_EQ(names(none), "");
  EXPECT_EQ(none.optimizer->bytes(), 0);
  EXPECT_EQ(adam.optimizer->bytes(), 2 * sgd.optimizer->bytes());
  int64_t trained = 0;
  for (const Bucket& b : adam.store.buckets()) trained += b.trainable ? b.owned.count : 0;
  EXPECT_EQ(sgd.optimizer->bytes(), 8 * trained);
  std::map<std::string, int64_t> kept;
  for (size_t b = 0; b < adam.store.buckets().size(); ++b)
    for (const Optimizer::StatePiece& s : adam.optimizer->states(b, Optimizer::Of::primary))
      kept[s.state + "/" + s.param->name] += s.view.count();
  for (const Param& p : adam.small.set.params())
    for (const char* state : {"m/", "v/"})
      EXPECT_EQ(kept[state + p.name], p.policy.trainable ? p.shape.count() : 0) << state << p.name;
}

// A step that leaves a parameter without a gradient treats it as zero: it decays, and its moments fade.
TEST(Optimizer, AParameterThatNobodyUsedHasAGradientOfZero) {
  Trial t(options(OptimizerType::adamw));
  for (int step = 1; step <= 2; ++step) {
    t.begin(step, 0.1);
    t.store.end_step();
    for (Unit& u : t.small.set.units()) t.store.open_grads(*t.c, u);
    for (const Param& p : t.small.set.params()) {
      bool accumulate = false;
      const bool written = p.name != "out" && !t.store.add_to_grad(p, accumulate).absent();
      EXPECT_FALSE(accumulate) << "a new step begins anew";
      for (size_t i = 0; i < t.gradients[p.name].size(); ++i) {
        if (written)
          t.store.add_to_grad(p, accumulate).as<double>()[i] = t.gradients[p.name][i];
        else
          t.gradients[p.name][i] = 0;
      }
    }
    t.store.finish_grads(*t.c);
    t.expect_step(step, 0.1, 1);
    t.update(0.1, t.optimizer->grad_norm(*t.c, SelfGroup()));
    t.compare("step " + std::to_string(step));
  }
}

}  // namespace test_optim_optimizer
}  // namespace ravine

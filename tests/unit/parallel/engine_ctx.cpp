// Ctx: the order of blocks and ops on the tape, what backward is given, recompute and rebuilding, leases, rules of
// precision, observers.
#include "engine/ctx.h"

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "parallel/stash.h"
#include "tests/unit/engine_help.h"

namespace ravine {
namespace test_engine_ctx {

using Lines = std::vector<std::string>;

struct Setting {
  explicit Setting(Recompute recompute = Recompute::none, Recipe rules = {}, Types types = Types::of(DType::f64))
      : recipe(std::move(rules)),
        stash(make_stash(recompute)),
        first(units.unit("model.layers.0")),
        second(units.unit("model.layers.1")) {
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(), s.recipe = &recipe,
    s.types = types;
    c = std::make_unique<Ctx>(s);
    batch.tokens = 2;
    c->begin(batch, true);
  }
  Tensor tensor(std::vector<double> values, Shape shape) {
    Tensor t = c->empty(shape, DType::f64);
    std::copy(values.begin(), values.end(), t.view().as<double>());
    return t;
  }
  Lines& log() { return store.log; }

  HeapArena arena;
  ParamSet units;
  Kernels kernels = ref_kernels();
  Recipe recipe;
  LoggingStore store;
  std::unique_ptr<Stash> stash;
  Unit &first, &second;
  Batch batch;
  std::unique_ptr<Ctx> c;
};

std::vector<double> numbers(const TensorView& v) { return {v.as<double>(), v.as<double>() + v.count()}; }

// y = x + x, so dx = 2 dy.
Tensor twice(Ctx& c, const Tensor& x, Lines* log = nullptr, const char* name = "twice") {
  Tensor y = c.empty({x.rows(), x.cols()}, DType::f64);
  c.call(Add{x.view(), x.view(), y.view()});
  c.record(
      name, {y.ref()},
      [xr = x.ref(), yr = y.ref(), log, name](Ctx& c) {
        if (log) log->push_back(std::string(name) + " dx at " + c.path() + " in " + std::string(ravine::name(c.phase())));
        Tensor dy = c.grads().get(yr), dx = c.empty(xr.shape, xr.dtype);
        c.call(Add{dy.view(), dy.view(), dx.view()});
        c.give_grad(xr, dx);
      },
      [log, name](Ctx&) {
        if (log) log->push_back(std::string(name) + " dw");
      });
  return y;
}

// The loss: gives its input the gradient 1.
void ones(Ctx& c, const Tensor& x) {
  c.record("ones", {}, [xr = x.ref()](Ctx& c) {
    Tensor dx = c.empty(xr.shape, xr.dtype);
    c.call(Fill{dx.view(), 1});
    c.give_grad(xr, dx);
  });
}

TEST(Tape, BlocksAndOpsGoBackLastFirstInsideLeases) {
  Setting s;
  Ctx& c = *s.c;
  Tensor x = s.tensor({1, 2}, {2, 1});
  TensorRef xr = x.ref();
  Flow f = c.block("model.layers.0", s.first, {x, {}}, [&](Ctx& c, Flow in) {
    s.log().push_back("runs at " + c.path());
    Ctx::Scope scope(c, "mlp");
    return Flow{twice(c, twice(c, in.x, &s.log(), "a"), &s.log(), "b"), {}};
  });
  c.block("model.layers.1", s.second, f, [&](Ctx& c, Flow in) {
    Tensor y = twice(c, in.x, &s.log(), "c");
    ones(c, y);
    return Flow{};
  });
  EXPECT_EQ(c.path(), "");
  c.backward({xr});
  EXPECT_EQ(s.log(), (Lines{"acquire model.layers.0",
                            "runs at model.layers.0",
                            "release model.layers.0",
                            "acquire model.layers.1",
                            "release model.layers.1",
                            "prefetch model.layers.0",
                            "acquire model.layers.1",
                            "open model.layers.1",
                            "c dx at model.layers.1 in backward",
                            "c dw",
                            "close model.layers.1",
                            "release model.layers.1",
                            "acquire model.layers.0",
                            "open model.layers.0",
                            "b dx at model.layers.0.mlp in backward",
                            "b dw",
                            "a dx at model.layers.0.mlp in backward",
                            "a dw",
                            "close model.layers.0",
                            "release model.layers.0"}));
  EXPECT_EQ(numbers(c.grads().get(xr).view()), (std::vector<double>{8, 8}));
}

TEST(Tape, GradientsOfOutputsAreGoneOnceUsed) {
  Setting s;
  Ctx& c = *s.c;
  TensorRef xr, middle;
  c.block("model.layers.0", s.first, {s.tensor({1}, {1, 1}), {}}, [&](Ctx& c, Flow in) {
    xr = in.x.ref();
    Tensor y = twice(c, in.x);
    middle = y.ref();
    ones(c, y);
    return Flow{};
  });
  c.backward({xr});
  EXPECT_FALSE(c.grads().has(middle));
  EXPECT_TRUE(c.grads().has(xr));
}

TEST(Tape, WhatIsLeftOverIsAnError) {
  Setting s;
  s.c->block("model.layers.0", s.first, {s.tensor({1}, {1, 1}), {}}, [&](Ctx& c, Flow in) {
    ones(c, twice(c, in.x));
    return Flow{};
  });
  EXPECT_THROW(s.c->backward(), Error) << "the gradient of the input was asked for by nobody";
}

TEST(Tape, AnOpWhoseOutputNobodyUsedIsLeftOut) {
  Setting s;
  Lines ran;
  TensorRef xr;
  s.c->block("model.layers.0", s.first, {s.tensor({1}, {1, 1}), {}}, [&](Ctx& c, Flow in) {
    xr = in.x.ref();
    twice(c, in.x, &ran, "unused");
    ones(c, twice(c, in.x, &ran, "used"));
    return Flow{};
  });
  s.c->backward({xr});
  EXPECT_EQ(ran, (Lines{"used dx at model.layers.0 in backward", "used dw"}));
  EXPECT_EQ(numbers(s.c->grads().get(xr).view())[0], 2);
}

TEST(Tape, GradientsOfSeveralUsesAddUp) {
  Setting s;
  TensorRef xr;
  s.c->block("model.layers.0", s.first, {s.tensor({1}, {1, 1}), {}}, [&](Ctx& c, Flow in) {
    xr = in.x.ref();
    ones(c, twice(c, in.x));
    ones(c, twice(c, twice(c, in.x)));
    ones(c, in.x);
    return Flow{};
  });
  s.c->backward({xr});
  EXPECT_EQ(numbers(s.c->grads().get(xr).view())[0], 2 + 4 + 1);
}

TEST(Tape, AGradientThatTwoTensorsShareIsNotWrittenOver) {
  Setting s;
  Tensor a = s.tensor({0}, {1, 1}), b = s.tensor({0}, {1, 1});
  {
    Tensor both = s.tensor({5}, {1, 1});
    s.c->give_grad(a.ref(), both);
    s.c->give_grad(b.ref(), both);
  }
  s.c->give_grad(a.ref(), s.tensor({2}, {1, 1}));
  EXPECT_EQ(numbers(s.c->grads().get(a.ref()).view())[0], 7);
  EXPECT_EQ(numbers(s.c->grads().get(b.ref()).view())[0], 5);
}

TEST(Tape, NothingIsRecordedWithoutTrainingNorKeptByBegin) {
  Setting s;
  s.c->begin(s.batch, false);
  s.c->block("model.layers.0", s.first, {s.tensor({1}, {1, 1}), {}}, [&](Ctx& c, Flow in) {
    EXPECT_FALSE(c.recording());
    return Flow{twice(c, in.x), {}};
  });
  EXPECT_EQ(s.arena.live(), 0);
  s.c->begin(s.batch, true);
  s.c->block("model.layers.0", s.first, {s.tensor({1}, {1, 1}), {}}, [&](Ctx& c, Flow in) {
    EXPECT_TRUE(c.recording());
    Tensor y = twice(c, in.x);
    Saved kept = c.save(y);
    c.record("keeps", {y.ref()}, [kept](Ctx&) {});
    return Flow{};
  });
  EXPECT_EQ(s.arena.live(), 1);
  s.c->begin(s.batch, true);
  EXPECT_EQ(s.arena.live(), 0) << "what was under way is dropped";
}

TEST(Tape, RecordingOutsideABlockIsAnError) {
  Setting s;
  s.c->block("model.layers.0", s.first, {}, [](Ctx&, Flow) { return Flow{}; });
  EXPECT_NO_THROW(s.c->record("op", {}, {})) << "not recording: nothing happens";
}

TEST(Recompute, ABlockKeepsItsInputsAndRunsAgain) {
  for (const Recompute policy : {Recompute::none, Recompute::full}) {
    Setting s(policy);
    Ctx& c = *s.c;
    std::vector<std::string> runs;
    Tensor x = s.tensor({3, 4}, {2, 1}), branch = s.tensor({10, 20}, {2, 1});
    TensorRef xr = x.ref(), br = branch.ref();
    std::vector<double> seen;
    Flow out = c.block("model.layers.0", s.first, {std::move(x), std::move(branch)}, [&](Ctx& c, Flow in) {
      runs.push_back(std::string(name(c.phase())) + (c.recording() ? ", records" : "") + " at " + c.path());
      EXPECT_EQ(in.x.ref().id, xr.id);
      EXPECT_EQ(in.branch.ref().id, br.id);
      Tensor y = twice(c, in.x), z = twice(c, twice(c, in.branch));
      Saved kept = c.save(y);
      c.record("reads", {}, [kept, &seen](Ctx& c) { seen = numbers(kept.get(c).view()); });
      return Flow{y, z};
    });
    EXPECT_EQ(s.arena.live(), policy == Recompute::full ? 4 : 2)
        << "full: two inputs and two outputs; none: the outputs, one of which an op saved";
    TensorRef ox = out.x.ref(), ob = out.branch.ref();
    c.block("", s.second, std::move(out), [&](Ctx& c, Flow in) {
      ones(c, in.x);
      ones(c, in.branch);
      return Flow{};
    });
    c.backward({xr, br});
    EXPECT_EQ(runs, policy == Recompute::full ? (Lines{"forward at model.layers.0", "recompute, records at model.layers.0"})
                                              : (Lines{"forward, records at model.layers.0"}));
    EXPECT_EQ(seen, (std::vector<double>{6, 8}));
    EXPECT_EQ(numbers(c.grads().get(xr).view()), (std::vector<double>{2, 2})) << name(policy);
    EXPECT_EQ(numbers(c.grads().get(br).view()), (std::vector<double>{4, 4})) << name(policy);
    EXPECT_FALSE(c.grads().has(ox) || c.grads().has(ob));
    EXPECT_EQ(c.phase(), Phase::backward);
  }
}

TEST(Saving, WhatCanBeRebuiltIsNotKept) {
  for (const Recompute policy : {Recompute::none, Recompute::cheap}) {
    Setting s(policy);
    int built = 0;
    Tensor t = s.tensor({5}, {1, 1});
    uint64_t id = t.ref().id;
    t.set_rebuild([&](Ctx& c) {
      ++built;
      Tensor again = c.empty({1, 1}, DType::f64);
      again.view().as<double>()[0] = 5;
      return again;
    });
    Saved saved = s.c->save(t);
    t = Tensor();
    const bool cheap = policy == Recompute::cheap;
    EXPECT_EQ(s.arena.live(), cheap ? 0 : 1) << name(policy);
    EXPECT_EQ(numbers(saved.get(*s.c).view())[0], 5);
    EXPECT_EQ(built, cheap ? 1 : 0);
    if (!cheap) EXPECT_EQ(saved.get(*s.c).ref().id, id) << "with the id it had";
    saved = {};
    EXPECT_EQ(s.arena.live(), 0);
  }
  Setting s;
  EXPECT_FALSE(static_cast<bool>(Saved().get(*s.c)));
}

TEST(InFlight, AMicroBatchIsPutAsideWithItsTape) {
  Setting s;
  Ctx& c = *s.c;
  TensorRef one, two;
  auto forward = [&](TensorRef& ref) {
    c.block("model.layers.0", s.first, {s.tensor({1}, {1, 1}), {}}, [&](Ctx& c, Flow in) {
      ref = in.x.ref();
      ones(c, twice(c, in.x));
      return Flow{};
    });
  };
  forward(one);
  Ctx::InFlight aside = c.suspend();
  EXPECT_EQ(aside.batch, &s.batch);
  Batch other;
  other.tokens = 1;
  c.begin(other, true);
  forward(two);
  EXPECT_THROW(c.resume({}), Error) << "another one is under way";
  c.backward({two});
  EXPECT_TRUE(c.grads().has(two));
  EXPECT_FALSE(c.grads().has(one));
  c.grads().clear();
  c.resume(std::move(aside));
  EXPECT_EQ(&c.batch(), &s.batch);
  c.backward({one});
  EXPECT_TRUE(c.grads().has(one));
}

TEST(StepSums, SumsAreKeptUntilTheDriverClearsThem) {
  Setting s;
  ExactSum a;
  a.add(0.25);
  s.c->add_sum(StepSum::loss, a);
  s.batch.micro = 1;
  s.c->begin(s.batch, true);
  s.c->add_sum(StepSum::loss, a);
  s.c->add_sum(StepSum::loss, a);
  EXPECT_EQ(s.c->step_sums().of(0, StepSum::loss).value(), 0.25);
  EXPECT_EQ(s.c->step_sums().of(1, StepSum::loss).value(), 0.5);
  EXPECT_EQ(s.c->step_sums().total(StepSum::loss).value(), 0.75);
  s.c->begin_step(2);
  EXPECT_EQ(s.c->step_sums().total(StepSum::loss).value(), 0);
}

TEST(StepSums, ABlockThatRunsAgainGivesItsSumsOnce) {
  Setting s(Recompute::full);
  TensorRef xr;
  s.c->block("model.layers.0", s.first, {s.tensor({1}, {1, 1}), {}}, [&](Ctx& c, Flow in) {
    xr = in.x.ref();
    ExactSum a;
    a.add(0.25);
    c.add_sum(StepSum::loss, a);
    ones(c, twice(c, in.x));
    return Flow{};
  });
  s.c->backward({xr});
  EXPECT_EQ(s.c->step_sums().total(StepSum::loss).value(), 0.25);
}

// --- what observers are told of a call

struct RecordingObserver : Observer {
  void after(const CallInfo& call) override {
    lines.push_back(fmt::format("{} {} {} {} {} {} #{}", call.step, call.micro, name(call.phase), name(call.role), call.path,
                                call.op, call.ordinal));
  }
  Lines lines;
};

TEST(Calls, NameTheirPurpose) {
  Setting s(Recompute::full);
  RecordingObserver recorder;
  s.c->add_observer(&recorder);
  s.c->begin_step(7);
  s.batch.micro = 3;
  s.c->begin(s.batch, true);
  TensorRef xr;
  s.c->block("model.layers.0", s.first, {s.tensor({1}, {1, 1}), {}}, [&](Ctx& c, Flow in) {
    xr = in.x.ref();
    Tensor y = twice(c, twice(c, in.x));
    c.record("ones", {}, {}, [yr = y.ref()](Ctx& c) {
      Tensor dy = c.empty(yr.shape, yr.dtype);
      c.call(Fill{dy.view(), 1});
      c.give_grad(yr, dy);
    });
    return Flow{};
  });
  s.c->backward({xr});
  s.c->set_phase(Phase::update);
  Tensor t = s.tensor({1}, {1, 1});
  s.c->call(Fill{t.view(), 1});
  EXPECT_EQ(recorder.lines, (Lines{"7 3 forward forward model.layers.0 add #0", "7 3 forward forward model.layers.0 add #1",
                                   "7 3 recompute forward model.layers.0 add #0", "7 3 recompute forward model.layers.0 add #1",
                                   "7 3 backward dw model.layers.0 fill #0", "7 3 backward dx model.layers.0 add #0",
                                   "7 3 backward dx model.layers.0 add #1", "7 0 update forward  fill #0"}));
}

TEST(Calls, NameTheirInputsAndOutputs) {
  struct Bytes : Observer {
    void after(const CallInfo& call) override { of.push_back(call.bytes); }
    std::vector<double> of;
  } bytes;
  Setting s;
  const Tensor x = s.tensor({1, 2, 3, 4}, {2, 2}), y = s.tensor({1, 2, 3, 4}, {2, 2}),
               table = s.tensor(std::vector<double>(100), {50, 2});
  std::vector<int32_t> ids{3, 47};
  s.c->add_observer(&bytes);
  s.c->call(Add{x.view(), x.view(), y.view()});
  s.c->call(WeightedSum{.y = y.view(), .x = x.view()});
  s.c->call(EmbeddingForward{.ids = view_of(ids.data(), DType::i32, {2}), .weight = table.view(), .out = y.view()});
  EXPECT_EQ(bytes.of, (std::vector<double>{3 * 32, 2 * 32 + 32, 2 * 4 + 32 + 32}))
      << "what is updated counts twice, of a table the rows that are looked up";
}

TEST(Calls, RunAgainOnOtherTensors) {
  struct Again : Observer {
    void after(const CallInfo& call) override {
      std::vector<TensorView> on;
      for (const NamedView& t : call.tensors) on.push_back(t.view);
      if (std::string_view(call.op) == "add")
        on[1] = view_of(&other, DType::f64, {1, 1}), on[2] = view_of(&out, DType::f64, {1, 1});
      call.rerun(ref_kernels(), on);
    }
    double other = 10, out = 0;
  } again;
  Setting s;
  Tensor x = s.tensor({1}, {1, 1}), y = s.tensor({0}, {1, 1});
  s.c->add_observer(&again);
  s.c->call(Add{x.view(), x.view(), y.view()});
  EXPECT_EQ(again.out, 11);
  EXPECT_EQ(y.view().as<double>()[0], 2) << "what the call wrote stays";
  ExactSum squares;
  s.c->call(SumSquares{x.view(), &squares});
  EXPECT_EQ(squares.value(), 1) << "a call that runs again adds nothing to a sum";
}

// --- rules of precision

const double kThird = 1.0 / 3;

double added(const Recipe& recipe, const std::string& path, DType type = DType::f64) {
  Setting s(Recompute::none, recipe);
  Tensor a = s.c->empty({1, 1}, type), out = s.c->empty({1, 1}, type);
  s.c->call(Fill{a.view(), kThird});
  Ctx::Scope scope(*s.c, path);
  s.c->call(Add{a.view(), a.view(), out.view()});
  return type == DType::f64 ? out.view().as<double>()[0] : static_cast<double>(out.view().as<float>()[0]);
}

TEST(Rules, ResultsAreRoundedByTheRule) {
  Recipe r;
  r.add({.path = "model.layers.1.*", .op = "add", .rounding = DType::bf16});
  EXPECT_EQ(added(r, "model.layers.1.mlp"), static_cast<double>(static_cast<float>(bf16(static_cast<float>(2 * kThird)))));
  EXPECT_EQ(added(r, "model.layers.0.mlp"), 2 * kThird);
  r.add({.op = "add", .rounding = DType::f32});
  EXPECT_EQ(added(r, "model.layers.1.mlp"), static_cast<double>(static_cast<float>(2 * kThird))) << "the last match counts";
  Recipe other;
  other.add({.op = "matmul", .rounding = DType::bf16});
  EXPECT_EQ(added(other, "model.layers.1.mlp"), 2 * kThird);
}

TEST(Rules, ArithmeticNarrowerThanTheTensorsRoundsOperandsFirst) {
  Recipe r;
  r.add({.op = "add", .arithmetic = DType::bf16});
  const double third = static_cast<double>(static_cast<float>(bf16(static_cast<float>(kThird))));
  EXPECT_EQ(added(r, "x", DType::f32), 2 * third);
}

TEST(Rules, ThoseThatMatchNoCallAreKnown) {
  Recipe r;
  r.add({.path = "model.layers.*", .op = "add", .rounding = DType::bf16});
  r.add({.path = "layers.0.*", .op = "add", .rounding = DType::bf16});
  r.add({.path = "model.*", .op = "add", .role = Role::dw, .rounding = DType::bf16});
  EXPECT_EQ(r.unmatched(), (std::vector<size_t>{0, 1, 2}));
  added(r, "model.layers.0.mlp");
  EXPECT_EQ(r.unmatched(), (std::vector<size_t>{0, 1, 2})) << "that call had a copy";
  EXPECT_NE(r.find("model.layers.0.mlp", "add", Role::forward), nullptr);
  EXPECT_EQ(r.unmatched(), (std::vector<size_t>{1, 2}));
  r.find("model.layers.0.mlp", "add", Role::dw);
  EXPECT_EQ(r.unmatched(), (std::vector<size_t>{1}));
}

// --- observers

struct LogObserver : Observer {
  void before(const CallInfo& i) override { log.push_back("before " + text(i)); }
  void after(const CallInfo& i) override { log.push_back("after " + text(i)); }
  void flow(Ctx&, std::string_view path, const Flow& f) override {
    log.push_back("flow " + std::string(path) + (f.x ? " x" : "") + (f.branch ? " branch" : ""));
  }
  static std::string text(const CallInfo& i) {
    std::string out = std::string(i.op) + " at " + std::string(i.path) + " in " + std::string(name(i.phase)) + ":";
    for (const NamedView& t : i.tensors) out += std::string(" ") + t.name;
    return out + fmt::format(", {}", i.flops);
  }
  Lines log;
};

TEST(Observers, SeeEveryCallAndWhatBlocksHandOn) {
  Setting s(Recompute::full);
  LogObserver observer;
  s.c->add_observer(&observer);
  TensorRef xr;
  Flow out = s.c->block("model.layers.0", s.first, {s.tensor({1, 2}, {2, 1}), {}}, [&](Ctx& c, Flow in) {
    xr = in.x.ref();
    return Flow{twice(c, in.x), {}};
  });
  s.c->block("", s.second, std::move(out), [&](Ctx& c, Flow in) {
    ones(c, in.x);
    return Flow{};
  });
  s.c->backward({xr});
  const std::string add = "add at model.layers.0 in ";
  EXPECT_EQ(observer.log,
            (Lines{"before " + add + "forward: a b out, 2", "after " + add + "forward: a b out, 2", "flow model.layers.0 x",
                   "flow ", "before fill at  in backward: out, 0", "after fill at  in backward: out, 0",
                   "before " + add + "recompute: a b out, 2", "after " + add + "recompute: a b out, 2",
                   "before " + add + "backward: a b out, 2", "after " + add + "backward: a b out, 2"}));
}

}  // namespace test_engine_ctx
}  // namespace ravine

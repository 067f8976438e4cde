// FlatStore: who overwrites a gradient and who adds, what is frozen or unused, tied places of use, leaves, and values
// that are gathered while a unit is leased.
#include "parallel/flat_store.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/backend.h"
#include "parallel/stash.h"
#include "tests/unit/rank_threads.h"

namespace ravine {
namespace test_parallel_flat_store {

struct Small {
  Small() {
    Unit& embed = set.unit("embed");
    set.add(embed, {"table", {6, 4}, {}, {}, true, Use::table});
    Unit& layer = set.unit("layer");
    set.add(layer, {"norm", {4}, {}, {Init::ones}, false, Use::vector});
    set.add_joined(layer, {{"q", {4, 4}}, {"k", {4, 4}}, {"v", {4, 4}}});
    Unit& head = set.unit("head");
    Param tied{"head", {6, 4}};
    tied.tied = set.find("table");
    set.add(head, tied);
    set.add(head, {"fixed", {3, 4}});
    set.find("k")->policy.trainable = set.find("fixed")->policy.trainable = false;
  }
  Unit& unit(size_t i) { return set.units()[i]; }
  Param& tied() {
    for (Param& p : set.params())
      if (p.tied) return p;
    fail("no tied parameter");
  }
  ParamSet set;
};

struct Here {
  explicit Here(const Types& types = Types::of(DType::f64), const FlatLayout& layout = {})
      : store(small.set, types, DeviceKind::cpu, layout), stash(make_stash(Recompute::none)) {
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(), s.types = types;
    c = std::make_unique<Ctx>(s);
    store.attach(*c);
  }
  void open() {
    for (size_t i = 0; i < 3; ++i) store.open_grads(*c, small.unit(i));
  }
  void close() {
    for (size_t i = 0; i < 3; ++i) store.close_grads(*c, small.unit(i));
  }
  // Writes as a kernel does: over what is there, or onto it.
  bool write(const Param& p, double value) {
    bool accumulate = false;
    TensorView g = store.add_to_grad(p, accumulate);
    for (int64_t i = 0; i < g.count() && !g.absent(); ++i) g.as<double>()[i] = (accumulate ? g.as<double>()[i] : 0) + value;
    return accumulate;
  }
  double first(const std::string& name) { return store.grad(*small.set.find(name)).as<double>()[0]; }
  HeapArena arena;
  Small small;
  Kernels kernels = ref_kernels();
  FlatStore store;
  std::unique_ptr<Stash> stash;
  std::unique_ptr<Ctx> c;
};

TEST(FlatGradients, TheFirstWriterOfAStepOverwritesLaterOnesAdd) {
  Here h;
  for (int step = 0; step < 2; ++step) {  // memory of the step before is not read
    h.open();
    Param& q = *h.small.set.find("q");
    EXPECT_FALSE(h.store.has_grad(q));
    EXPECT_FALSE(h.write(q, 2));
    EXPECT_TRUE(h.store.has_grad(q));
    EXPECT_TRUE(h.write(q, 3));
    h.close();
    h.open();  // the next micro batch of the leaf adds
    EXPECT_TRUE(h.write(q, 5));
    h.close();
    h.store.finish_grads(*h.c);
    EXPECT_EQ(h.first("q"), 10);
    EXPECT_GT(h.arena.live(), 0);
    h.store.end_step();
    EXPECT_EQ(h.arena.live(), 0);
    EXPECT_FALSE(h.store.has_grad(q)) << "a new step";
  }
}

TEST(FlatGradients, WhatNobodyWroteAndWhatIsFrozenIsZero) {
  Here h;
  h.open();
  for (const char* name : {"q", "k"})
    EXPECT_FALSE(h.write(*h.small.set.find(name), 7)) << "one product writes all members of a joined group";
  bool accumulate = false;
  EXPECT_TRUE(h.store.add_to_grad(*h.small.set.find("fixed"), accumulate).absent())
      << "frozen by itself: there is no place for it";
  h.close();
  h.store.finish_grads(*h.c);
  EXPECT_EQ(h.first("q"), 7);
  for (const char* name : {"k", "v", "norm"}) {
    TensorView g = h.store.grad(*h.small.set.find(name));
    for (int64_t i = 0; i < g.count(); ++i) EXPECT_EQ(g.as<double>()[i], 0) << name;
  }
  h.store.end_step();
  EXPECT_THROW(h.write(*h.small.set.find("q"), 1), Error) << "gradients are not open";
}

TEST(FlatGradients, TiedUsesAddUpOnce) {
  Here h;
  Param &table = *h.small.set.find("table"), &head = h.small.tied();
  EXPECT_EQ(h.store.master(head).data, h.store.master(table).data);
  for (bool both : {true, false}) {
    h.open();
    EXPECT_FALSE(h.write(head, 3)) << "the place of use has a gradient of its own";
    if (both) EXPECT_FALSE(h.write(table, 4));
    h.close();
    h.store.finish_grads(*h.c);
    EXPECT_EQ(h.first("table"), both ? 7 : 3);
    h.store.end_step();
  }
}

TEST(FlatGradients, LeavesAddUpAsABalancedTree) {
  // The order of the additions shows where they round: (a + b) + (c + d) is not ((a + b) + c) + d.
  const std::vector<double> leaves = {1, 0x1p-53, 0x1p-53, 0x1p-53};
  Here h;
  for (size_t i = 0; i < leaves.size(); ++i) {
    h.store.end_leaf(true, i + 1 == leaves.size());
    h.open();
    EXPECT_FALSE(h.write(*h.small.set.find("q"), leaves[i])) << "a leaf begins anew";
    h.close();
    h.store.wait_reduced(*h.c);
  }
  h.store.finish_grads(*h.c);
  EXPECT_EQ(h.first("q"), (1 + 0x1p-53) + (0x1p-53 + 0x1p-53));
  EXPECT_NE(h.first("q"), ((1 + 0x1p-53) + 0x1p-53) + 0x1p-53);
  h.store.end_step();
  EXPECT_EQ(h.arena.live(), 0);
}

TEST(FlatValues, CopiesAreOfMatricesOnly) {
  Here h(Types::of(DType::bf16));
  for (const Param& p : h.small.set.params())
    for (int64_t i = 0; i < p.shape.count(); ++i) h.store.master(p).as<float>()[i] = 1 + static_cast<float>(i) * 0x1p-10f;
  h.store.refresh_copies(*h.c);
  const Param &q = *h.small.set.find("q"), &norm = *h.small.set.find("norm"), &table = *h.small.set.find("table");
  EXPECT_EQ(h.store.value(q).dtype, DType::bf16);
  EXPECT_EQ(static_cast<float>(h.store.value(q).as<bf16>()[3]), static_cast<float>(bf16(1 + 3 * 0x1p-10f)));
  EXPECT_EQ(h.store.value(norm).dtype, DType::f32);
  EXPECT_EQ(h.store.value(table).dtype, DType::f32) << "a table is read from the master";
  EXPECT_EQ(h.store.value(h.small.tied()).dtype, DType::bf16) << "where a product reads it, it has a copy";
  EXPECT_EQ(h.store.master(q).dtype, DType::f32);
}

// Under ZeRO 3 a rank keeps its part; all of a unit is there while somebody leases it.
TEST(FlatValues, AUnitIsGatheredWhileItIsLeased) {
  Ranks ranks = Ranks::fake({.data = 2}, 0);
  Here h(Types::of(DType::f64), {.zero = 3, .whole_below = 10, .ranks = &ranks});
  Unit& layer = h.small.unit(1);
  const Param& v = *h.small.set.find("v");
  EXPECT_FALSE(h.store.all_resident());
  EXPECT_THROW(h.store.value(v), Error) << "its unit is not acquired";
  const int64_t before = ranks.along(Axis::data).traffic().calls;
  {
    Lease outer(h.store, layer);
    EXPECT_EQ(h.arena.live(), 1) << "the norm is too small to be divided";
    EXPECT_EQ(h.store.value(v).shape[0], 4);
    {
      Lease inner(h.store, layer);
      EXPECT_EQ(h.arena.live(), 1) << "gathered once";
    }
    EXPECT_EQ(h.arena.live(), 1) << "the outer lease holds it still";
    EXPECT_NO_THROW(h.store.value(v));
  }
  EXPECT_EQ(h.arena.live(), 0);
  EXPECT_EQ(ranks.along(Axis::data).traffic().calls, before + 1);
  h.store.prefetch(layer);
  EXPECT_EQ(h.arena.live(), 1) << "on its way";
  { Lease lease(h.store, layer); }
  EXPECT_EQ(h.arena.live(), 0);
}

// Buckets of small parameters may stay whole although ranks divide the others.
TEST(FlatValues, SmallParametersStayWholeUnderZero3) {
  Ranks ranks = Ranks::fake({.data = 2}, 0);
  Here h(Types::of(DType::f64), {.zero = 3, .whole_below = 10, .stays_up_to = 16, .ranks = &ranks});
  const Param &v = *h.small.set.find("v"), &table = *h.small.set.find("table");
  EXPECT_NO_THROW(h.store.value(v)) << "16 elements";
  EXPECT_THROW(h.store.value(table), Error) << "24 elements";
  const int64_t before = ranks.along(Axis::data).traffic().calls;
  { Lease lease(h.store, h.small.unit(1)); }
  EXPECT_EQ(ranks.along(Axis::data).traffic().calls, before) << "nothing is gathered";
  for (size_t b = 0; b < h.store.buckets().size(); ++b) {
    const Bucket& bucket = h.store.buckets()[b];
    if (!bucket.holds(v)) continue;
    EXPECT_TRUE(bucket.divided()) << "states and gradients are";
    h.store.publish(*h.c, b);
    EXPECT_EQ(ranks.along(Axis::data).traffic().calls, before + 1) << "what each rank has updated comes together";
  }
}

// A bucket names the ranks that hold it in common: parameters whose group is the tensor axis are summed and divided
// along it, beside others of the data axis.
TEST(FlatGroups, EachIsSummedAndDividedAlongItsOwn) {
  for (int zero : {0, 1, 2, 3}) {
    on_ranks({.data = 2, .tensor = 2}, [&](const Ranks& ranks) {
      ParamSet set;
      Unit& unit = set.unit("layer");
      set.add(unit, {"common", {2, 1024}});
      set.add(unit, {"expert", {2, 1024}});
      set.find("expert")->group = Axis::tensor;
      const Types types = Types::of(DType::f64);
      HeapArena arena;
      const Kernels kernels = ref_kernels();
      const auto stash = make_stash(Recompute::none);
      FlatStore store(set, types, DeviceKind::cpu, {.zero = zero, .whole_below = 10, .ranks = &ranks});
      Ctx::Setup s;
      s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(), s.types = types;
      Ctx c(s);
      store.attach(c);
      store.open_grads(c, unit);
      for (const char* name : {"common", "expert"}) {
        bool accumulate = false;
        const TensorView g = store.add_to_grad(*set.find(name), accumulate);
        for (int64_t i = 0; i < g.count(); ++i)
          g.as<double>()[i] = static_cast<double>(i) + 10000.0 * ranks.at().data + 100000.0 * ranks.at().tensor;
      }
      store.close_grads(c, unit);
      store.finish_grads(c);
      ASSERT_EQ(store.buckets().size(), 2u);
      for (size_t b = 0; b < 2; ++b) {
        const Bucket& bucket = store.buckets()[b];
        const bool expert = bucket.spans[0].param->name == "expert";
        ASSERT_EQ(bucket.group, expert ? Axis::tensor : Axis::data);
        const int64_t half = 1024 * (expert ? ranks.at().tensor : ranks.at().data);
        ASSERT_EQ(bucket.owned, (zero > 0 ? Range{half, 1024} : Range{0, 2048}));
        const TensorView g = store.owned_grad(b);
        for (int64_t i = 0; i < g.count(); ++i)
          ASSERT_EQ(g.as<double>()[i],
                    2.0 * static_cast<double>(bucket.owned.begin + i) +
                        (expert ? 100000.0 + 20000.0 * ranks.at().data : 10000.0 + 200000.0 * ranks.at().tensor));
      }
      store.end_step();
      // The values of all ranks are gathered along the same ranks.
      for (size_t b = 0; b < 2; ++b) {
        const TensorView owned = store.owned_master(b);
        for (int64_t i = 0; i < owned.count(); ++i)
          owned.as<double>()[i] = static_cast<double>(store.buckets()[b].owned.begin + i);
        store.publish(c, b);
      }
      store.settle_values();
      Lease lease(store, unit);
      for (const char* name : {"common", "expert"})
        for (int64_t i = 0; i < 2048; ++i)
          ASSERT_EQ(store.master(*set.find(name)).as<double>()[i], static_cast<double>(i)) << name;
    });
  }
}

}  // namespace test_parallel_flat_store
}  // namespace ravine

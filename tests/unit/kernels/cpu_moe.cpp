// Kernels of experts: cpu against ref, gradients of ref against finite differences. Some experts have no rows, one row
// or all rows.
#include <algorithm>
#include <numeric>

#include "tests/unit/harness.h"

namespace ravine {
namespace test_cpu_moe {

// The rows of 5 experts: none, a few (the path for few rows), or more than a chunk of 1024. `tail`: rows that belong to
// no expert.
struct Load {
  std::vector<int64_t> counts;
  int64_t tail;
};
const Load kLoads[] = {{{3, 0, 1, 12, 0}, 0}, {{0, 0, 40, 0, 0}, 3}, {{130, 7, 0, 1100, 9}, 1}, {{0, 0, 0, 0, 0}, 4}};

std::vector<int64_t> offsets_of(const Load& l) {
  std::vector<int64_t> out{0};
  for (int64_t n : l.counts) out.push_back(out.back() + n);
  return out;
}

void check_grouped(DType t, DType out_type, const Load& load, bool trans_a, bool trans_b, bool accumulate,
                   const Kernels& kernels) {
  Case c;
  const std::vector<int64_t> offsets = offsets_of(load);
  const int64_t rows = offsets.back() + load.tail, experts = static_cast<int64_t>(load.counts.size()), in = 70, out = 33;
  GroupedMatmul g;
  g.offsets = c.integers(DType::i32, offsets);
  g.a = c.input(1, t, {rows, trans_a ? out : in}, 6);
  g.b = trans_a   ? c.input(2, t, {rows, in}, 2)
        : trans_b ? c.input(2, t, {experts, out, in})
                  : c.input(2, t, {experts, in, out});
  const Shape shape = trans_a ? Shape{experts, out, in} : Shape{rows, out};
  const int64_t gap = trans_a ? 0 : 3;
  g.out = accumulate ? c.input(3, out_type, shape, gap) : c.output(out_type, shape, gap);
  g.trans_a = trans_a, g.trans_b = trans_b, g.accumulate = accumulate;
  const auto magnitude = run_ref(g, true)["out"];
  const int64_t terms = trans_a ? *std::max_element(load.counts.begin(), load.counts.end()) : in;
  // Every 1024 rows of a weight gradient are added to out, in its type.
  const double chunks = trans_a && out_type != DType::f32 ? static_cast<double>(ceil_div(terms, 1024)) : 0;
  expect_close(
      run_both(g, kernels)["out"],
      [&](int64_t i) {
        return (gamma32(static_cast<double>(terms) + 4) + chunks * unit(out_type)) * magnitude[static_cast<size_t>(i)];
      },
      fmt::format("{} -> {}, rows {}, trans_a {} trans_b {} accumulate {}", name(t), name(out_type), rows, trans_a, trans_b,
                  accumulate));
  c.expect_intact();
}

void check_all_grouped(const Kernels& kernels, std::initializer_list<DType> types) {
  for (DType t : types)
    for (const Load& load : kLoads)
      for (bool accumulate : {false, true}) {
        check_grouped(t, t, load, false, true, accumulate, kernels);
        check_grouped(t, DType::f32, load, false, false, accumulate, kernels);
        check_grouped(t, DType::f32, load, true, false, accumulate, kernels);
      }
}

TEST(CpuMoe, GroupedProducts) { check_all_grouped(cpu_kernels(), {DType::f32, DType::bf16, DType::f16}); }

TEST(CpuMoe, GroupedProductsByDot) {
  if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this machine has no bf16 dot product";
  check_all_grouped(cpu_kernels(Bf16Products::dot), {DType::bf16});
}

// The workspace planned for all rows at one expert is enough for every other load. Fewer rows can ask a product for
// more memory.
TEST(CpuMoe, WorkspaceOfAllRowsIsEnoughForAnyLoad) {
  const Kernels kernels = cpu_kernels();
  const Kernel<GroupedMatmul>& grouped = kernels.of<GroupedMatmul>();
  const Kernel<Matmul>& product = kernels.of<Matmul>();
  auto meta = [](const Shape& s) { return view_of(nullptr, DType::f32, s); };
  for (auto [out, in] : {std::pair<int64_t, int64_t>{4096, 4000}, {300, 5000}, {128, 64}})
    for (int64_t rows : {1, 40, 1024, 3000}) {
      GroupedMatmul w{
          .a = meta({rows, out}), .b = meta({rows, in}), .offsets = meta({3}), .out = meta({2, out, in}), .trans_a = true};
      GroupedMatmul y{
          .a = meta({rows, in}), .b = meta({2, out, in}), .offsets = meta({3}), .out = meta({rows, out}), .trans_b = true};
      for (int64_t n = 1; n <= rows; ++n) {
        if (n <= 1024)
          ASSERT_LE(product.workspace({.a = meta({n, out}),
                                       .b = meta({n, in}),
                                       .bias = {},
                                       .out = meta({out, in}),
                                       .trans_a = true,
                                       .tokens_reduced = true},
                                      3),
                    grouped.workspace(w, 3))
              << n << " of " << rows << " rows of a gradient " << out << " x " << in;
        ASSERT_LE(product.workspace(
                      {.a = meta({n, in}), .b = meta({out, in}), .bias = {}, .out = meta({n, out}), .trans_b = true}, 3),
                  grouped.workspace(y, 3))
            << n << " of " << rows << " rows times " << out << " x " << in;
      }
    }
}

TEST(CpuMoe, RowsGoAndComeBack) {
  for (DType t : kFloats)
    for (int64_t cols : {1, 40, 257}) {
      Case c;
      GatherRows g{c.input(1, t, {4, cols}, 3), c.integers(DType::i32, {2, -1, 0, 0, 3, -1}), c.output(t, {6, cols}, 1)};
      expect_equal(run_both(g)["out"], "gather");
      for (bool accumulate : {false, true}) {
        CombineRows s;
        s.y = c.input(2, DType::f32, {6, cols}, 2), s.accumulate = accumulate;
        s.slots = c.output(DType::i32, {4, 2}).set({0, 5, -1, 3, 2, 1, -1, -1});
        s.out = accumulate ? c.input(3, t, {4, cols}, 5) : c.output(t, {4, cols}, 5);
        const auto magnitude = run_ref(s, true)["out"];
        expect_close(
            run_both(s)["out"], [&](int64_t i) { return gamma32(3) * magnitude[static_cast<size_t>(i)]; }, "combine");
      }
      ScaleRows s{c.input(4, t, {5, cols}, 2), c.input(5, DType::f32, {5, 1}), c.output(t, {5, cols}, 1)};
      auto o = run_both(s)["out"];
      expect_close(
          o, [&](int64_t i) { return gamma32(1) * std::fabs(o.want[static_cast<size_t>(i)]); }, "scale");
      SigmoidForward f{c.input(6, t, {3, cols}, 1, 20), c.output(t, {3, cols}, 2)};
      o = run_both(f)["out"];
      expect_close(
          o, [&](int64_t i) { return gamma32(2 * kFunction + 3) * std::fabs(o.want[static_cast<size_t>(i)]); }, "sigmoid");
      SigmoidBackward b{c.input(7, t, {3, cols}, 1), c.input(8, t, {3, cols}), c.output(t, {3, cols}, 2)};
      const TensorView y = b.y, d = b.dout;
      o = run_both(b)["dx"];
      expect_close(
          o,
          [&](int64_t i) {
            return gamma32(3) * std::fabs(get(d, i / cols, i % cols) * get(y, i / cols, i % cols)) *
                   (1 + std::fabs(get(y, i / cols, i % cols)));
          },
          "sigmoid_backward");
      c.expect_intact();
    }
}

// Every kind of routing.
std::vector<Routing> routings() {
  std::vector<Routing> out;
  Routing r{.experts = 12, .top_k = 3};
  out.push_back(r);
  r.normalise = true, r.scaling = 2.5, out.push_back(r);
  r.groups = 4, r.kept_groups = 2, out.push_back(r);
  r.scores = Routing::Scores::sigmoid, r.group_score = Routing::GroupScore::two_best, r.correction = true;
  r.normalise_eps = 1e-20, out.push_back(r);
  r.capacity_factor = 0.7;
  for (Drop drop : {Drop::position, Drop::rank, Drop::probs}) r.drop = drop, out.push_back(r);
  r.pad_to_capacity = true, out.push_back(r);
  Routing after{.experts = 12, .top_k = 3, .softmax_after = true};
  out.push_back(after);
  out.push_back({.experts = 3, .top_k = 3, .normalise = true});
  out.push_back({.experts = 5, .top_k = 1});
  return out;
}

// A choice and its consequences, of one backend; `wide`: the type of statistics.
struct Choice {
  Choice(const Routing& r, int64_t tokens, DType wide, const Kernels& kernels, bool ties = false) : routing(r), tokens(tokens) {
    const int64_t rows = routed_rows(r, tokens);
    logits = c.input(1, DType::f32, {tokens, r.experts}, 0, 3);
    if (ties)
      for (double& x : held = values(logits)) x = std::round(x);
    if (ties) set_values(logits, held);
    if (wide != DType::f32) {
      const std::vector<double> same = values(logits);
      logits = c.output(wide, {tokens, r.experts}).set(same);
    }
    std::vector<int64_t> group(static_cast<size_t>(tokens));
    for (int64_t n = 0; n < tokens; ++n) group[static_cast<size_t>(n)] = n % 7 == 5 ? -1 : n < tokens / 3 ? 0 : 1;
    groups = c.integers(DType::i32, group);
    const std::vector<double> bias = values(c.input(2, DType::f32, {r.experts}, 0, 0.2));
    a = {.logits = logits,
         .correction = r.correction ? c.output(wide, {r.experts}).set(bias) : TensorView{},
         .groups = groups,
         .chosen = c.output(DType::i32, {tokens, r.top_k}),
         .slots = c.output(DType::i32, {tokens, r.top_k}),
         .tokens = c.output(DType::i32, {rows}),
         .weights = c.output(wide, {rows, 1}),
         .offsets = c.output(DType::i32, {r.experts + 1}),
         .claims = c.output(DType::i32, {r.experts}),
         .routing = r};
    run_kernel(kernels, a);
  }
  Case c;
  std::vector<double> held;
  Routing routing;
  int64_t tokens;
  TensorView logits, groups;
  RouterChoice a;
};

TEST(CpuMoe, ChoicesAreThoseOfRef) {
  for (const Routing& r : routings())
    for (int64_t tokens : {1, 40, 301})
      for (bool ties : {false, true}) {
        Choice want(r, tokens, DType::f64, ref_kernels(), ties);
        for (int threads : {1, 2, 3}) {
          ThreadCount scope(threads);
          Choice got(r, tokens, DType::f32, cpu_kernels(), ties);
          for (auto [what, x, y] : {std::tuple{"chosen", &got.a.chosen, &want.a.chosen},
                                    {"slots", &got.a.slots, &want.a.slots},
                                    {"tokens", &got.a.tokens, &want.a.tokens},
                                    {"offsets", &got.a.offsets, &want.a.offsets},
                                    {"claims", &got.a.claims, &want.a.claims}})
            EXPECT_EQ(values(*x), values(*y))
                << what << ", " << tokens << " tokens, experts " << r.experts << " drop " << name(r.drop);
          const auto w = values(got.a.weights), v = values(want.a.weights);
          // double, rounded once
          for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(w[i], v[i], gamma32(1) * std::fabs(v[i]));
          got.c.expect_intact();
        }
      }
}

// Each used row has a token that chose its expert; rows of an expert are in the order of tokens. No choice has two
// rows, padding has none, and with a capacity no expert has more.
TEST(CpuMoe, RowsAreAPermutation) {
  for (const Routing& r : routings()) {
    const int64_t tokens = 90, capacity = expert_capacity(r, tokens);
    Choice x(r, tokens, DType::f32, cpu_kernels());
    const auto slots = values(x.a.slots), at = values(x.a.tokens), offsets = values(x.a.offsets), chosen = values(x.a.chosen);
    int64_t served = 0;
    for (int64_t n = 0; n < tokens; ++n)
      for (int64_t j = 0; j < r.top_k; ++j) {
        const auto i = static_cast<size_t>(n * r.top_k + j);
        if (slots[i] < 0) continue;
        ++served;
        EXPECT_GE(get(x.groups, 0, n), 0);
        EXPECT_EQ(at[static_cast<size_t>(slots[i])], static_cast<double>(n));
        const auto e = static_cast<size_t>(chosen[i]);
        EXPECT_TRUE(slots[i] >= offsets[e] && slots[i] < offsets[e + 1]);
      }
    EXPECT_EQ(served, std::count_if(at.begin(), at.end(), [](double t) { return t >= 0; }));
    for (int64_t e = 0; e < r.experts; ++e) {
      const auto begin = static_cast<size_t>(offsets[static_cast<size_t>(e)]),
                 end = static_cast<size_t>(offsets[static_cast<size_t>(e) + 1]);
      EXPECT_LE(static_cast<int64_t>(end - begin), capacity);
      for (size_t row = begin + 1; row < end; ++row)
        if (at[row] >= 0) EXPECT_LT(at[row - 1], at[row]);
    }
  }
}

RouterSums sums_of(Choice& x, DType) {
  return {.logits = x.logits,
          .chosen = x.a.chosen,
          .groups = x.groups,
          .scores = x.c.output(DType::f64, {2, x.routing.experts}),
          .counts = x.c.output(DType::f64, {2, x.routing.experts}),
          .z = x.c.output(DType::f64, {1}),
          .routing = x.routing};
}

RouterBackward backward_of(Choice& x, DType wide) {
  return {.logits = x.logits,
          .chosen = x.a.chosen,
          .slots = x.a.slots,
          .groups = x.groups,
          .dweights = x.c.input(5, wide, {x.a.weights.rows(), 1}),
          .slopes = x.c.input(6, DType::f64, {2, x.routing.experts}, 0, 0.1),
          .dlogits = x.c.output(wide, {x.tokens, x.routing.experts}),
          .z_slope = 0.03,
          .routing = x.routing};
}

// cpu sums in double as ref does, in another order. Results stored as f32 are rounded once.
TEST(CpuMoe, SumsAndGradientsOfRouters) {
  for (const Routing& r : routings()) {
    Choice x(r, 2100, DType::f32, cpu_kernels());
    auto sums = run_both(sums_of(x, DType::f32));
    for (const auto& [what, o] : sums)
      for (size_t i = 0; i < o.got.size(); ++i)
        EXPECT_NEAR(o.got[i], o.want[i], gamma_of(2100 + 20, 0x1p-53) * std::fabs(o.want[i])) << what;
    const RouterBackward b = backward_of(x, DType::f32);
    auto o = run_both(b)["dlogits"];
    double largest = 0;
    for (double v : o.want) largest = std::max(largest, std::fabs(v));
    // Differences of sums over experts cancel; each has a few hundred roundings of double.
    expect_close(
        o, [&](int64_t) { return gamma_of(1000, 0x1p-53) * std::max(1.0, largest); }, "dlogits");
    x.c.expect_intact();
  }
}

TEST(MoeGradients, RouterAgainstDifferences) {
  const Kernels ref = ref_kernels();
  for (const Routing& r : routings()) {
    Choice x(r, 9, DType::f64, ref);
    const RouterSums sums = sums_of(x, DType::f64);
    const RouterBackward b = backward_of(x, DType::f64);
    ref.of<RouterBackward>().run(b, nullptr);
    auto loss = [&] {
      ref.of<RouterChoice>().run(x.a, nullptr), ref.of<RouterSums>().run(sums, nullptr);
      double all = b.z_slope * get(sums.z, 0, 0);
      for (int64_t i = 0; i < x.a.weights.rows(); ++i) all += get(x.a.weights, i, 0) * get(b.dweights, i, 0);
      for (int64_t g = 0; g < 2; ++g)
        for (int64_t e = 0; e < r.experts; ++e) all += get(sums.scores, g, e) * get(b.slopes, g, e);
      return all;
    };
    const auto chosen = values(x.a.chosen);
    for (int64_t n = 0; n < x.tokens; ++n)
      for (int64_t e = 0; e < r.experts; ++e) {
        const double keep = get(x.logits, n, e), h = 1e-4;
        bool same = true;
        auto at = [&](double d) {
          put(x.logits, n, e, keep + d);
          const double l = loss();
          same = same && values(x.a.chosen) == chosen;
          return l;
        };
        const double d = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
        put(x.logits, n, e, keep), loss();
        // Five points: error h^4 f'''''/30, rounding a few hundred eps |loss| / h. A choice that changes has no
        // derivative.
        if (same) EXPECT_NEAR(get(b.dlogits, n, e), d, 1e-9) << "token " << n << " expert " << e << " of " << r.experts;
      }
  }
}

}  // namespace test_cpu_moe
}  // namespace ravine

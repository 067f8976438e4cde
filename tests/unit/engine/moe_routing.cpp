// Routing of MindSpore Transformers (tests/golden/moe_routing.json, copied by tools/golden/copy_moe_routing.py):
// capacities, chosen and dropped experts, weights, losses. Choices must be equal.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/json.h"
#include "engine/router_load.h"
#include "kernels/kernels.h"

namespace ravine {
namespace test_moe_routing {

const Json& golden() {
  static const Json j = read_json(RAVINE_SOURCE_DIR "/tests/golden/moe_routing.json");
  return j;
}

Routing routing_of(const Json& config) {
  Routing r{.experts = config.at("expert_num"), .top_k = config.at("num_experts_chosen")};
  const std::string method = config.value("topk_method", "greedy");
  r.scores = config.value("use_gating_sigmoid", false) ? Routing::Scores::sigmoid : Routing::Scores::softmax;
  if (method != "greedy") r.groups = config.at("n_group"), r.kept_groups = config.at("topk_group");
  if (method == "noaux_tc") r.group_score = Routing::GroupScore::two_best;
  r.correction = config.value("balance_via_topk_bias", false);
  // The older router normalises the weights after claims were dropped.
  r.normalise = config.contains("norm_topk_prob") && config.at("norm_topk_prob") && r.top_k > 1;
  r.normalise_eps = 1e-9;
  r.scaling = config.value("routed_scaling_factor", 1.0);
  r.capacity_factor = config.at("capacity_factor");
  r.drop = r.capacity_factor <= 0 ? Drop::none : config.value("enable_sdrop", false) ? Drop::position : Drop::rank;
  return r;
}

struct Routed {
  Routed(const Json& c, const Routing& r, const Kernels& kernels, DType type) {
    const int64_t n = static_cast<int64_t>(c.at("logits").size()), rows = routed_rows(r, n);
    z = number(c.at("logits"), type, {n, r.experts});
    bias = number(c.value("bias", Json::array()), type, {r.experts});
    groups.assign(static_cast<size_t>(n), 0);
    chosen.resize(static_cast<size_t>(n * r.top_k)), slots = chosen, tokens.resize(static_cast<size_t>(rows));
    offsets.resize(static_cast<size_t>(r.experts) + 1), claims.resize(static_cast<size_t>(r.experts));
    weights.resize(static_cast<size_t>(rows * size_of(type)));
    auto ints = [](std::vector<int32_t>& v, const Shape& s) { return view_of(v.data(), DType::i32, s); };
    const TensorView logits = view_of(z.data(), type, {n, r.experts});
    std::vector<std::byte> scratch(1 << 20);
    kernels.of<RouterChoice>().run({.logits = logits,
                                    .correction = r.correction ? view_of(bias.data(), type, {r.experts}) : TensorView{},
                                    .groups = ints(groups, {n}),
                                    .chosen = ints(chosen, {n, r.top_k}),
                                    .slots = ints(slots, {n, r.top_k}),
                                    .tokens = ints(tokens, {rows}),
                                    .weights = view_of(weights.data(), type, {rows, 1}),
                                    .offsets = ints(offsets, {r.experts + 1}),
                                    .claims = ints(claims, {r.experts}),
                                    .routing = r},
                                   scratch.data());
    load = {.experts = r.experts,
            .top_k = r.top_k,
            .claims = {claims.begin(), claims.end()},
            .scores = {},
            .counts = {},
            .shares = {}};
    load.scores.resize(claims.size()), load.counts = load.scores;
    auto wide = [&](double* v, const Shape& s) { return view_of(v, DType::f64, s); };
    kernels.of<RouterSums>().run({.logits = logits,
                                  .chosen = ints(chosen, {n, r.top_k}),
                                  .groups = ints(groups, {n}),
                                  .scores = wide(load.scores.data(), {1, r.experts}),
                                  .counts = wide(load.counts.data(), {1, r.experts}),
                                  .z = wide(&load.squares, {1}),
                                  .routing = r},
                                 scratch.data());
  }
  static std::vector<std::byte> number(const Json& values, DType type, const Shape& shape) {
    std::vector<std::byte> out(static_cast<size_t>(shape.count() * size_of(type)));
    size_t i = 0;
    auto put = [&](double x) {
      if (type == DType::f64)
        reinterpret_cast<double*>(out.data())[i++] = x;
      else
        reinterpret_cast<float*>(out.data())[i++] = static_cast<float>(x);
    };
    for (const Json& row : values)
      if (row.is_array())
        for (const Json& x : row) put(x);
      else
        put(row);
    return out;
  }
  double weight(int32_t slot, DType type) const {
    if (slot < 0) return 0;
    return type == DType::f64 ? reinterpret_cast<const double*>(weights.data())[slot]
                              : reinterpret_cast<const float*>(weights.data())[slot];
  }
  std::vector<std::byte> z, bias, weights;
  std::vector<int32_t> groups, chosen, slots, tokens, offsets, claims;
  RouterLoad load;
};

TEST(MoeRouting, Capacity) {
  for (const Json& row : golden().at("capacity")) {
    const Routing r{.experts = row.at(3), .top_k = row.at(0), .capacity_factor = row.at(2), .drop = Drop::position};
    EXPECT_EQ(expert_capacity(r, row.at(1)), row.at(4).get<int64_t>()) << row.dump();
  }
}

TEST(MoeRouting, ThirteenRecordedCases) {
  ASSERT_EQ(golden().at("cases").size(), 13);
  for (const auto& [label, c] : golden().at("cases").items())
    for (auto [kernels, type] : {std::pair{ref_kernels(), DType::f64}, {cpu_kernels(), DType::f32}}) {
      const Json& config = c.at("config");
      const Routing r = routing_of(config);
      const Routed got(c, r, kernels, type);
      const bool older = !config.contains("routing_policy");
      const int64_t n = static_cast<int64_t>(c.at("logits").size());
      std::set<std::pair<int64_t, int64_t>> taken;
      for (int64_t t = 0; t < n; ++t)
        for (int64_t j = 0; j < r.top_k; ++j) {
          const auto i = static_cast<size_t>(t * r.top_k + j);
          // If the older router drops a token's first choice, it serves no later choice of this token.
          if (got.slots[i] >= 0 && !(older && got.slots[static_cast<size_t>(t * r.top_k)] < 0)) taken.emplace(t, got.chosen[i]);
        }
      EXPECT_EQ(taken, (c.at("taken").get<std::set<std::pair<int64_t, int64_t>>>())) << label;
      // Recorded in f32: a score has a few roundings of its own, of exp and of sums of 8.
      const double bound = 32 * 0x1p-24;
      for (int64_t t = 0; t < n; ++t) {
        double kept = 0;
        for (int64_t j = 0; j < r.top_k; ++j) kept += got.weight(got.slots[static_cast<size_t>(t * r.top_k + j)], type);
        for (int64_t j = 0; j < r.top_k; ++j) {
          const auto i = static_cast<size_t>(t * r.top_k + j);
          const auto first = static_cast<size_t>(t * r.top_k);
          const double w = got.weight(got.slots[i], type);
          if (older && got.slots[first] < 0) continue;
          const double want = c.at("weights")
                                  .at(static_cast<size_t>(t))
                                  .at(older ? static_cast<size_t>(got.chosen[i]) : static_cast<size_t>(j));
          EXPECT_NEAR(older && kept > 0 ? w / kept : w, want, bound * r.scaling) << label << " token " << t << " choice " << j;
          if (!older) EXPECT_EQ(got.chosen[i], c.at("experts").at(static_cast<size_t>(t)).at(static_cast<size_t>(j))) << label;
        }
      }
    }
}

// Its losses from Ravine's counts and sums: of experts, of groups of experts (device, comm), and of the logits.
TEST(MoeRouting, Losses) {
  for (const auto& [label, c] : golden().at("cases").items()) {
    const Json& config = c.at("config");
    if (!config.contains("aux_loss_types")) continue;
    const Routing r = routing_of(config);
    const Routed got(c, r, ref_kernels(), DType::f64);
    const RouterLoads loads{{0, got.load}};
    const double k = static_cast<double>(r.top_k), tokens = got.load.tokens(), e = static_cast<double>(r.experts);
    double want = 0;
    for (size_t i = 0; i < config.at("aux_loss_types").size(); ++i) {
      const std::string kind = config.at("aux_loss_types").at(i);
      double loss = pooled_balance(pool_of(loads)) / k;
      if (kind != "expert") {  // one group of all experts (comm, of one rank), or groups of expert_group_size
        const int64_t groups = kind == "device" ? config.at("expert_group_size").get<int64_t>() : 1, size = r.experts / groups;
        loss = 0;
        for (int64_t g = 0; g < groups; ++g) {
          const auto at = g * size;
          const double p = std::accumulate(got.load.scores.begin() + at, got.load.scores.begin() + at + size, 0.0) /
                           (tokens * static_cast<double>(size)),
                       f = std::accumulate(got.load.counts.begin() + at, got.load.counts.begin() + at + size, 0.0) /
                           (k * tokens * static_cast<double>(size));
          loss += e * e * f * p / static_cast<double>(groups);
        }
      }
      want += config.at("aux_loss_factors").at(i).get<double>() * loss;
    }
    want += config.value("z_loss_factor", 0.0) * z_loss(loads);
    EXPECT_NEAR(c.at("loss").get<double>(), want, 1e-6 * want) << label;
  }
}

// Both losses are 1 (times k, times the number of layers) at even load. Their derivatives equal finite differences.
TEST(MoeRouting, BalanceLosses) {
  RouterLoad even{.experts = 4,
                  .top_k = 2,
                  .claims = {},
                  .scores = {3, 3, 3, 3, 1.5, 1.5, 1.5, 1.5},
                  .counts = {6, 6, 6, 6, 3, 3, 3, 3},
                  .shares = {}};
  RouterLoads layers{{1, even}, {3, even}};
  EXPECT_NEAR(pooled_balance(pool_of(layers)), 2, 1e-14);
  EXPECT_NEAR(grouped_balance(layers), 2, 1e-14);
  layers[3].scores = {5, 4, 2, 1, 0.5, 0.5, 3, 2}, layers[3].counts = {12, 0, 11, 1, 6, 6, 0, 0};
  auto pooled = [](const RouterLoads& all) { return pooled_balance(pool_of(all)); };
  auto slopes_of_pool = [](const RouterLoads& all, int64_t layer) { return pooled_slopes(pool_of(all), all.at(layer)); };
  using Value = double (*)(const RouterLoads&);
  using Slopes = std::vector<double> (*)(const RouterLoads&, int64_t);
  for (auto [value, slopes] : {std::pair<Value, Slopes>{pooled, slopes_of_pool}, {&grouped_balance, &grouped_slopes}})
    for (int64_t layer : {1, 3}) {
      const std::vector<double> d = slopes(layers, layer);
      for (size_t i = 0; i < d.size(); ++i) {
        RouterLoads more = layers;
        more[layer].scores[i] += 0.5;
        EXPECT_NEAR((value(more) - value(layers)) / 0.5, d[i], 1e-13);
      }
    }
}

// With the shares of its own micro batch the loss equals the loss of one group. With other shares its derivatives equal
// finite differences.
TEST(MoeRouting, BalanceOverMoreThanAMicroBatch) {
  RouterLoad one{.experts = 4, .top_k = 2, .claims = {}, .scores = {5, 4, 2, 1}, .counts = {12, 0, 11, 1}, .shares = {}};
  RouterLoads layers{{0, one}, {2, one}};
  EXPECT_NEAR(global_balance(layers), grouped_balance(layers), 1e-14);
  layers[0].shares = {1, 0, 11.0 / 12, 1.0 / 12}, layers[2].shares = {0.25, 0.5, 0.75, 0.5};
  EXPECT_NEAR(global_balance(layers), 2 * (1 * 5 + 11.0 / 12 * 2 + 1.0 / 12 * 1 + 0.25 * 5 + 0.5 * 4 + 0.75 * 2 + 0.5) / 12,
              1e-14);
  for (int64_t layer : {0, 2}) {
    const std::vector<double> d = global_slopes(layers, layer);
    for (size_t i = 0; i < d.size(); ++i) {
      RouterLoads more = layers;
      more[layer].scores[i] += 0.5;
      EXPECT_NEAR((global_balance(more) - global_balance(layers)) / 0.5, d[i], 1e-13);
    }
  }
}

}  // namespace test_moe_routing
}  // namespace ravine

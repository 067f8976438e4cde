// What the router of one layer did with a micro batch: counts for logs, and the sums that its losses are made of.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ravine {

struct RouterLoad {
  int64_t experts = 0, top_k = 0;
  std::vector<int64_t> claims;  // choices of each expert, padding left out, before any are dropped
  int64_t taken = 0;            // of them, those that are served
  // Over tokens of a group (RouterSums in kernels/moe.h), by group and expert; over all of them the squares of logsumexp.
  std::vector<double> scores, counts;
  double squares = 0;
  // Choices of each expert per token over more than this micro batch, where global_balance takes those; empty: its own.
  std::vector<double> shares;
  int64_t groups() const { return static_cast<int64_t>(counts.size()) / experts; }
  double tokens(int64_t group) const;  // of a group
  double tokens() const;
};

// Those of all layers of a micro batch, by number of the layer.
using RouterLoads = std::map<int64_t, RouterLoad>;

// What the loss that pools all layers is made of: their sums by expert, in the order of the layers. Stages of a pipeline hand it
// on (parallel/stage.h).
struct RouterPool {
  std::vector<double> scores, counts;
  double tokens = 0;
  void add(const RouterLoad& load);
};
RouterPool pool_of(const RouterLoads& layers);

// E sum_e f_e P_e over the tokens of all layers together (Fedus et al. 2021; load_balancing_loss_func of Transformers): f_e the
// choices of expert e per token, P_e its mean score. k where all are even. 0 where there are no tokens.
double pooled_balance(const RouterPool& pool);
// The sum over layers of the mean over groups of E / k sum_e f_e P_e within a group (DeepSeek-V2, 2024): 1 per layer where all
// are even.
double grouped_balance(const RouterLoads& layers);
// The sum over layers of E / k sum_e f_e P_e with f_e of `shares` (Megatron-core's global_aux_loss): P_e of this micro batch alone.
double global_balance(const RouterLoads& layers);
// The sum over layers of the mean over tokens of logsumexp(logits)^2 (Zoph et al. 2022).
double z_loss(const RouterLoads& layers);

// Derivatives of these by the scores of a layer's tokens, by group and expert.
std::vector<double> pooled_slopes(const RouterPool& pool, const RouterLoad& layer);
std::vector<double> grouped_slopes(const RouterLoads& layers, int64_t layer);
std::vector<double> global_slopes(const RouterLoads& layers, int64_t layer);

}  // namespace ravine

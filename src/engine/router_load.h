// The statistics of one layer's router in a micro batch: counts for logs, and the sums from which its losses are
// computed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ravine {

struct RouterLoad {
  int64_t experts = 0, top_k = 0;
  std::vector<int64_t> claims;  // number of choices of each expert, before capacity drops any; without padding
  int64_t taken = 0;            // number of choices that are not dropped
  // Sums over the tokens of a group (RouterSums in kernels/moe.h), at [group * experts + expert]: router scores, and
  // numbers of choices. squares: the sum of logsumexp^2 over all tokens.
  std::vector<double> scores, counts;
  double squares = 0;
  // For global_balance: the number of choices of each expert per token, over more than this micro batch. Empty:
  // computed from `counts`.
  std::vector<double> shares;
  int64_t groups() const { return static_cast<int64_t>(counts.size()) / experts; }
  double tokens(int64_t group) const;  // number of tokens of a group
  double tokens() const;
};

// The router statistics of all layers of a micro batch, by layer number.
using RouterLoads = std::map<int64_t, RouterLoad>;

// Router scores, choices and tokens of all layers, by expert and in the order of the layers, for the pooled balance
// loss. Pipeline stages pass it to the next stage (parallel/stage.h).
struct RouterPool {
  std::vector<double> scores, counts;
  double tokens = 0;
  void add(const RouterLoad& load);
};
RouterPool pool_of(const RouterLoads& layers);

// Returns the pooled balance loss: E sum_e f_e P_e over the tokens of all layers together (Fedus et al. 2021;
// load_balancing_loss_func of Transformers). f_e: choices of expert e per token; P_e: its mean score. k if the load is
// even; 0 if there are no tokens.
double pooled_balance(const RouterPool& pool);
// Returns the balance loss by groups of tokens: the sum over layers of the mean over groups of E / k sum_e f_e P_e
// within a group (DeepSeek-V2, 2024). 1 per layer if the load is even.
double grouped_balance(const RouterLoads& layers);
// Returns the global balance loss: the sum over layers of E / k sum_e f_e P_e (Megatron-core's global_aux_loss). f_e is
// from `shares`, P_e from this micro batch.
double global_balance(const RouterLoads& layers);
// Returns the z loss of the routers: the sum over layers of the mean over tokens of logsumexp(logits)^2 (Zoph et al.
// 2022).
double z_loss(const RouterLoads& layers);

// Return the derivatives of pooled_balance, grouped_balance and global_balance by the scores of a layer's tokens, by
// group and expert.
std::vector<double> pooled_slopes(const RouterPool& pool, const RouterLoad& layer);
std::vector<double> grouped_slopes(const RouterLoads& layers, int64_t layer);
std::vector<double> global_slopes(const RouterLoads& layers, int64_t layer);

}  // namespace ravine

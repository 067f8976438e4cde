// The rules by which a router chooses experts, as numbers: an argument of the kernels of moe.h, and a part of a layer's
// MoeSpec.
#pragma once
#include <cstdint>

#include "config/moe_choices.h"

namespace ravine {

// The settings by which a router chooses the experts of a token. z = x Wr^T are the logits of the token over E experts,
// s its scores:
//   softmax: exp(z_e) / sum exp(z), sigmoid: 1 / (1 + exp(-z_e)).
// Experts are ranked by q = s + correction. With groups, experts are divided into `groups` equal runs. The
// `kept_groups` best groups are kept (the first of equal groups), and experts of other groups are not chosen. Of the
// kept experts the top_k with the largest q are chosen, best first (the first of equal experts). Their weights:
//   w = s of the chosen; with softmax_after, the softmax of the chosen logits;
//   with normalise w / (sum of w + normalise_eps); all times scaling.
struct Routing {
  enum class Scores : uint8_t { softmax, sigmoid };
  // The score of a group: its largest q (DeepSeek-V2), or the sum of its two largest (V3).
  enum class GroupScore : uint8_t { best, two_best };
  int64_t experts = 0, top_k = 0;
  Scores scores = Scores::softmax;
  bool softmax_after = false;  // of softmax: over the chosen experts only (Megatron without pre-softmax)
  int64_t groups = 1, kept_groups = 1;
  GroupScore group_score = GroupScore::best;
  // true: a bias per expert is added to the scores for the choice, but not for the weights (DeepSeek-V3).
  bool correction = false;
  bool normalise = false;
  double normalise_eps = 0;  // 1e-20 in DeepSeek-V3
  double scaling = 1;
  // The capacity of an expert: limits its rows to min(N, ceil(capacity_factor K N / E)), with N tokens in the micro
  // batch; 0: no limit. Choices beyond the capacity are dropped, in the order that `drop` names. The weights of other
  // choices do not change.
  double capacity_factor = 0;
  Drop drop = Drop::none;
  bool pad_to_capacity = false;  // every expert computes as many rows as its capacity; unused rows are zero
  template <class F>
  void settings(F&& f) const {
    f("top_k", static_cast<double>(top_k)), f("scores", static_cast<double>(scores));
    f("softmax_after", static_cast<double>(softmax_after)), f("normalise", static_cast<double>(normalise));
    f("scaling", scaling), f("capacity_factor", capacity_factor);
  }
};

// Returns the largest number of rows that one expert can get, for `tokens` tokens in a micro batch.
int64_t expert_capacity(const Routing& r, int64_t tokens);
// Returns the largest number of rows that all experts together can get, for `tokens` tokens in a micro batch.
int64_t routed_rows(const Routing& r, int64_t tokens);

}  // namespace ravine

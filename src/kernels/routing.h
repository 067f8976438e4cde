// How a router chooses experts for tokens, as numbers: what the kernels of moe.h are told, and part of a layer's MoeSpec.
#pragma once
#include <cstdint>

#include "config/moe_choices.h"

namespace ravine {

// z = x Wr^T are the logits of a token over E experts, s their scores:
//   softmax: exp(z_e) / sum exp(z), sigmoid: 1 / (1 + exp(-z_e))
// and q = s + correction what experts are ranked by. With groups, experts stand in `groups` equal runs; the `kept_groups` best
// stay, the first of equal ones, others are out. Of those that stay the top_k of largest q are chosen, best first; of equal
// ones the first. Their weights:
//   w = s of the chosen; under softmax_after their softmax among themselves;
//   with normalise w / (sum of w + normalise_eps); all times scaling.
struct Routing {
  enum class Scores : uint8_t { softmax, sigmoid };
  enum class GroupScore : uint8_t {
    best,
    two_best
  };  // of a group: its largest q (DeepSeek-V2), the sum of its two largest (V3)
  int64_t experts = 0, top_k = 0;
  Scores scores = Scores::softmax;
  bool softmax_after = false;  // of softmax: over the chosen only (Megatron without pre-softmax)
  int64_t groups = 1, kept_groups = 1;
  GroupScore group_score = GroupScore::best;
  bool correction = false;  // a bias per expert takes part in the choice, not in the weights (DeepSeek-V3)
  bool normalise = false;
  double normalise_eps = 0;  // 1e-20 in DeepSeek-V3
  double scaling = 1;
  // Of N tokens of a micro batch an expert takes at most min(N, ceil(capacity_factor K N / E)); 0: all that choose it. What it
  // does not take is dropped, in the order of claims that `drop` names; the weights of other choices stay as they are.
  double capacity_factor = 0;
  Drop drop = Drop::none;
  bool pad_to_capacity = false;  // every expert computes that many rows, the rest of them zero
  template <class F>
  void settings(F&& f) const {
    f("top_k", static_cast<double>(top_k)), f("scores", static_cast<double>(scores));
    f("softmax_after", static_cast<double>(softmax_after)), f("normalise", static_cast<double>(normalise));
    f("scaling", scaling), f("capacity_factor", capacity_factor);
  }
};

// Rows that an expert takes at most, of `tokens` tokens.
int64_t expert_capacity(const Routing& r, int64_t tokens);
// Rows of all experts that routing may ask for.
int64_t routed_rows(const Routing& r, int64_t tokens);

}  // namespace ravine

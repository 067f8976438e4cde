// Choices of mixture of experts.
#pragma once
#include "config/choice.h"

namespace ravine {

// The rule that drops choices above an expert's capacity. none: dropping is an error. position: later tokens are
// dropped (MindFormers' sdrop). rank: lower-ranked choices, then later tokens (its kdrop). probs: smaller weights
// (Megatron's probs).
enum class Drop : uint8_t { none, position, rank, probs };
constexpr auto names_of(Drop) {
  using enum Drop;
  return std::to_array<ValueName<Drop>>({{none, "none"}, {position, "position"}, {rank, "rank"}, {probs, "probs"}});
}

// The load balance of experts (docs/options.md, moe.load_balance). stored: as in config.json.
enum class LoadBalance : uint8_t { stored, none, aux, seq_aux, global_aux, bias };
constexpr auto names_of(LoadBalance) {
  using enum LoadBalance;
  return std::to_array<ValueName<LoadBalance>>(
      {{stored, "stored"}, {none, "none"}, {aux, "aux"}, {seq_aux, "seq_aux"}, {global_aux, "global_aux"}, {bias, "bias"}});
}

enum class RouterType : uint8_t { f32 };
constexpr auto names_of(RouterType) {
  using enum RouterType;
  return std::to_array<ValueName<RouterType>>({{f32, "f32"}});
}

// The learned gate on the output of shared experts. stored: as in the model's family.
enum class SharedGate : uint8_t { stored, gated, plain };
constexpr auto names_of(SharedGate) {
  using enum SharedGate;
  return std::to_array<ValueName<SharedGate>>({{stored, "stored"}, {gated, "gated"}, {plain, "plain"}});
}

}  // namespace ravine

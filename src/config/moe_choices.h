// The closed choices of mixtures of experts.
#pragma once
#include "config/choice.h"

namespace ravine {

// Who keeps a place where an expert has fewer than there are claims: nobody is turned away; the earlier token (MindFormers'
// sdrop); the better rank of choice, then the earlier token (its kdrop); the larger weight (Megatron's probs).
enum class Drop : uint8_t { none, position, rank, probs };
constexpr auto names_of(Drop) {
  using enum Drop;
  return std::to_array<ValueName<Drop>>({{none, "none"}, {position, "position"}, {rank, "rank"}, {probs, "probs"}});
}

// What keeps the load of experts even (docs/options.md: moe.load_balance). stored: what config.json says.
enum class LoadBalance : uint8_t { stored, none, aux, seq_aux, bias };
constexpr auto names_of(LoadBalance) {
  using enum LoadBalance;
  return std::to_array<ValueName<LoadBalance>>(
      {{stored, "stored"}, {none, "none"}, {aux, "aux"}, {seq_aux, "seq_aux"}, {bias, "bias"}});
}

}  // namespace ravine

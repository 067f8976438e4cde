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

// What keeps the load of experts even (docs/options.md, moe.load_balance). stored: what config.json says.
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

// Whether what a shared expert gives is multiplied by a learned gate. stored: as the family has it.
enum class SharedGate : uint8_t { stored, gated, plain };
constexpr auto names_of(SharedGate) {
  using enum SharedGate;
  return std::to_array<ValueName<SharedGate>>({{stored, "stored"}, {gated, "gated"}, {plain, "plain"}});
}

}  // namespace ravine

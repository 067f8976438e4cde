// The two forms in which experts are written for Megatron-core.
#pragma once
#include "config/choice.h"

namespace ravine {

// How Megatron-core's files hold experts: a layer's side by side, as GroupedMLP on Transformer Engine numbers them
// (experts.linear_fc1.weight0 ..), or one module each (experts.local_experts.0.linear_fc1.weight ..).
enum class ExpertNames : uint8_t { grouped, sequential };
constexpr auto names_of(ExpertNames) {
  using enum ExpertNames;
  return std::to_array<ValueName<ExpertNames>>({{grouped, "grouped"}, {sequential, "sequential"}});
}

}  // namespace ravine

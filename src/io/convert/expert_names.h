// The two forms in which experts are stored for Megatron-core.
#pragma once
#include "config/choice.h"

namespace ravine {

// Names of experts in Megatron-core's files. grouped: all experts of a layer in one module, numbered as in GroupedMLP
// on Transformer Engine (experts.linear_fc1.weight0 ..). sequential: one module each
// (experts.local_experts.0.linear_fc1.weight ..).
enum class ExpertNames : uint8_t { grouped, sequential };
constexpr auto names_of(ExpertNames) {
  using enum ExpertNames;
  return std::to_array<ValueName<ExpertNames>>({{grouped, "grouped"}, {sequential, "sequential"}});
}

}  // namespace ravine

// Which program's weights lie at a path.
#pragma once
#include <optional>
#include <string>

#include "config/choice.h"

namespace ravine {

enum class WeightLayout : uint8_t { hf, megatron, deepspeed, mindformers, ravine };
constexpr auto names_of(WeightLayout) {
  using enum WeightLayout;
  return std::to_array<ValueName<WeightLayout>>(
      {{hf, "hf"}, {megatron, "megatron"}, {deepspeed, "deepspeed"}, {mindformers, "mindformers"}, {ravine, "ravine"}});
}

struct Recognised {
  WeightLayout layout;
  std::string what;  // "Megatron checkpoint (one file per tensor and pipeline rank)"
};
// By the names of files, and of tensors where those do not tell. Nothing if it is none of them; a damaged file is a UserError.
std::optional<Recognised> recognise(const std::string& path);
// Whether a folder is one of Megatron's, ModelLink's with DeepSpeed among them.
bool holds_megatron(const std::string& path);

}  // namespace ravine

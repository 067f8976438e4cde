// The layout of parameters in DeepSpeed's flat vectors: their order, and the share of each rank.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/convert/elements.h"
#include "model/weight_files.h"

namespace ravine {

// The position of a parameter in a flat parameter group of DeepSpeed, in comparable form. Groups have no names:
// parameters have the order in which Transformers' classes create their modules.
struct DeepSpeedOrder {
  int64_t part, layer, module, bias;
  auto operator<=>(const DeepSpeedOrder&) const = default;
};
// Returns the position of parameter `name` in its flat group. A module that is in no list is a UserError that names
// `where`.
DeepSpeedOrder deepspeed_order(const std::string& name, const CheckpointNames& names, const std::string& where);
// Throws a UserError if the order of this model's parameters in DeepSpeed is unknown. `model` is the config.json,
// `where` its name in messages. Called before a run begins.
void check_deepspeed_order(const Json& model, const std::string& where);

// Returns elements [begin, begin + count) of the concatenated parts, in f32; zeros behind the end of the parts. `rule`
// describes the result in messages.
ElementsPtr flat_range(const std::vector<ElementsPtr>& parts, int64_t begin, int64_t count, const std::string& rule);
// Returns the chunks of all parts for rank r of n, concatenated, in f32: ceil(count / n) elements of each part, padded
// with zeros.
ElementsPtr chunks(const std::vector<ElementsPtr>& parts, int64_t r, int64_t n, const std::string& rule);

}  // namespace ravine

// How parameters lie in DeepSpeed's flat vectors: their order, and what each rank has of them.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/convert/elements.h"
#include "model/weight_files.h"

namespace ravine {

// Flat groups have no names: parameters lie in the order in which Transformers' classes make their modules.
struct DeepSpeedPlace {
  int64_t part, layer, module, bias;
  auto operator<=>(const DeepSpeedPlace&) const = default;
};
// Errors: a UserError that names `where` if the module is in no list.
DeepSpeedPlace deepspeed_place(const std::string& name, const CheckpointNames& names, const std::string& where);
// A UserError, where the order of this model's parameters is not known: before a run begins.
void check_deepspeed_order(const Json& model, const std::string& where);

// What lies beside each other in one vector of f32, from `begin` on; zeros behind its end.
ElementsPtr flat_range(const std::vector<ElementsPtr>& parts, int64_t begin, int64_t count, const std::string& rule);
// What rank r of n has of each, ceil(count / n) elements, side by side.
ElementsPtr chunks(const std::vector<ElementsPtr>& parts, int64_t r, int64_t n, const std::string& rule);

}  // namespace ravine

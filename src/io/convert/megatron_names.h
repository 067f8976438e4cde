// Tensors of a Megatron checkpoint under one spelling, that of megatron-core, whichever version has written it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "io/convert/megatron_folder.h"

namespace ravine {

using Shards = std::vector<ElementsPtr>;  // of one tensor, by tensor rank

// All tensors, layers counted from 0 over all stages, matrices of experts "mlp.experts.E.linear_fc1.weight" with E counted over
// all expert ranks; `layers` gets their number. What only some tensor ranks hold is a
// UserError.
std::map<std::string, Shards> gather_shards(const MegatronFolder& f, int64_t* layers);

// "decoder.layers.3.x" -> 3 and "x"; -1 for other names.
int64_t split_layer(const std::string& name, std::string* suffix);

}  // namespace ravine

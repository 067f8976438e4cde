// Renames the tensors of a Megatron checkpoint of any version to megatron-core's names.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "io/convert/megatron_folder.h"

namespace ravine {

using Shards = std::vector<ElementsPtr>;  // the parts of one tensor, by tensor rank

// Returns the parts of all tensors by megatron-core's names, with layers counted from 0 over all stages; `layers`
// receives the number of layers. Matrices of experts are "mlp.experts.E.linear_fc1.weight", with E counted over all
// expert ranks. A tensor that only some tensor ranks hold is a UserError.
std::map<std::string, Shards> gather_shards(const MegatronFolder& f, int64_t* layers);

// Splits the name of a layer's tensor: for "decoder.layers.3.x" returns 3 and sets `suffix` to "x". Returns -1 for
// other names.
int64_t split_layer(const std::string& name, std::string* suffix);

}  // namespace ravine

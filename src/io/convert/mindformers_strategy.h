// Reads MindSpore's strategy files (strategy/ckpt_strategy_rank_R.ckpt): the split of parameters over the ranks of a
// job. Weights are read by the shapes of their slices alone; a strategy that contradicts them belongs to other weights.
// Source: mindspore/ccsrc/utils/node_strategy.proto, mindspore/parallel/_tensor.py (_get_tensor_strategy).
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ravine {

// The number of parts of each dim of each parameter, by its name in MindFormers.
using MindFormersCuts = std::map<std::string, std::vector<int64_t>>;
// Returns the split of the parameters in the text of a strategy file. Parts of a parallel optimizer are parts of the
// first dim. Parameters that the file does not describe are left out. A text that is not such a message is a UserError.
MindFormersCuts parse_mindformers_strategy(std::string_view text, const std::string& where);

// Returns the split of the parameters in a strategy file, or in all files *.ckpt of a folder, one of each rank or
// stage.
MindFormersCuts read_mindformers_strategy(const std::string& path);

// Returns the first tensor in the weight files at `weights` that contradicts the strategy `cuts`, as
// "'model.norm_out.weight' is [64] in FILE, [32] by the strategy"; "" if none. `model` is the config.json, `where` its
// name in messages.
std::string strategy_disagreement(const MindFormersCuts& cuts, const std::string& weights, const Json& model,
                                  const std::string& where);

}  // namespace ravine

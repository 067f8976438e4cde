// Strategy files of MindSpore (strategy/ckpt_strategy_rank_R.ckpt): how the ranks of a job cut its parameters. Shapes of slices
// alone decide how weights are read here; a strategy that says otherwise is one of other weights. Source:
// mindspore/ccsrc/utils/node_strategy.proto, mindspore/parallel/_tensor.py (_get_tensor_strategy).
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ravine {

// Into how many parts each dim of a parameter is cut, by its name in MindFormers; parts of a parallel optimizer are parts of the
// first dim. A parameter of which the file does not say it is left out. A text that is no such message is a UserError.
using MindFormersCuts = std::map<std::string, std::vector<int64_t>>;
MindFormersCuts parse_mindformers_strategy(std::string_view text, const std::string& where);

// Of a file, or of all files *.ckpt of a folder, one of each rank or stage.
MindFormersCuts read_mindformers_strategy(const std::string& path);

// What in files of weights is not cut as it is said, as "'model.norm_out.weight' is [64] in FILE, [32] by the strategy"; "" if
// all agrees. `model`: config.json, `where` for messages.
std::string strategy_disagreement(const MindFormersCuts& cuts, const std::string& weights, const Json& model,
                                  const std::string& where);

}  // namespace ravine

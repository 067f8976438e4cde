// The arguments by which Megatron describes a network: what a checkpoint keeps of them, and what it must agree with.
#pragma once
#include <string>

#include "io/convert/weights.h"

namespace ravine {

// The arguments of the network, in the order in which files hold them: {"num_layers": 2, "hidden_size": 64, ..}.
Json network_arguments(const Geometry& g);

// The network of the files in a folder. A Hugging Face folder or a run's model has it in config.json. Folders of ranks
// store arguments; for missing arguments a config.json next to them is read. `where` names the source.
struct StoredNetwork {
  Json arguments = Json::object();  // empty: unknown, or not readable
  std::string where;
};
StoredNetwork stored_network(const std::string& folder);

// Throws a UserError if the weights in `folder` are of another network than `config`, though shapes may agree: other
// heads, groups of heads or positions. Megatron refuses these too (check_checkpoint_args). `config_where`: the name of
// `config` in messages.
void refuse_other_network(const std::string& folder, const Json& config, const std::string& config_where);

}  // namespace ravine

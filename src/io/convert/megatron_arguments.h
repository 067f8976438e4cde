// The arguments by which Megatron describes a network: what a checkpoint keeps of them, and what it must agree with.
#pragma once
#include <string>

#include "io/convert/weights.h"

namespace ravine {

// The arguments of the network, in the order in which files hold them: {"num_layers": 2, "hidden_size": 64, ..}.
Json network_arguments(const Geometry& g);

// What the files in a folder say of their network: config.json of a Hugging Face folder or of a run's model; of ranks the
// arguments that they store, and where these are silent a config.json beside them. `where` names what says it.
struct StoredNetwork {
  Json arguments = Json::object();  // empty: nothing says it, or it cannot be read
  std::string where;
};
StoredNetwork stored_network(const std::string& folder);

// Throws a UserError where weights would be taken for those of another network, though shapes may agree: other heads, groups of
// heads or positions. Megatron refuses these too (check_checkpoint_args). `config`: what the model is to be, by `config_where`.
void refuse_other_network(const std::string& folder, const Json& config, const std::string& config_where);

}  // namespace ravine

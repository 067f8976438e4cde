#pragma once
#include <string>

namespace ravine {

// Whether the folder is that of a Megatron checkpoint in its own files, or one step of it: mp_rank_TT[_PPP] folders, or the file
// that names the newest step. Opens no tensor.
bool is_megatron_folder(const std::string& path);

// Whether it is one, or one of ModelLink with DeepSpeed: TAG/mp_rank_TT_model_states.pt (TAG as the file latest says, or the folder
// itself) that say Megatron's version; beside them ZeRO's shards may lie. A damaged file is a UserError.
bool holds_megatron(const std::string& path);

}  // namespace ravine

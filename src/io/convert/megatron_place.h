#pragma once
#include <string>

namespace ravine {

// Whether the folder is that of a Megatron checkpoint in its own files, or one step of it: mp_rank_TT[_PPP] folders, or the file
// that names the newest step. Opens no tensor.
bool is_megatron_folder(const std::string& path);

}  // namespace ravine

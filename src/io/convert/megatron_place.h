#pragma once
#include <optional>
#include <string>
#include <vector>

namespace ravine {

// True if the folder is a Megatron checkpoint in Megatron's own files, or one step of it. Such a folder has
// mp_rank_TT[_PPP] folders, a torch_dist checkpoint, or the file that names the newest step. Opens no tensor.
bool is_megatron_folder(const std::string& path);

// True if is_megatron_folder, or if the folder is a checkpoint of ModelLink with DeepSpeed. The latter has files
// TAG/mp_rank_TT_model_states.pt with Megatron's version; TAG is named in the file latest, or is the folder itself.
// ZeRO's shards may be next to them. A damaged file is a UserError.
bool holds_megatron(const std::string& path);

inline constexpr const char* kMegatronTracker = "latest_checkpointed_iteration.txt";
inline constexpr const char* kMegatronRelease = "release";  // in the tracker file instead of a step: weights alone
// Returns the name of the folder of ranks of a step: "iter_0000100" for 100.
std::string megatron_iteration(int64_t step);
// Returns the folder of ranks that the tracker file in `path` names; `path` itself if there is no tracker file. A
// tracker file that names no folder, or a missing one, is a UserError.
std::string megatron_ranks(const std::string& path);
// Returns the folders iter_NNNNNNN in `path`, oldest first, up to the folder that the tracker file names; none if the
// file names none.
std::vector<std::string> megatron_checkpoints(const std::string& path);
// Returns the step of a folder of ranks: 100 for "iter_0000100"; nothing for other names.
std::optional<int64_t> megatron_step(const std::string& folder);

}  // namespace ravine

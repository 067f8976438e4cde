#pragma once
#include <optional>
#include <string>
#include <vector>

namespace ravine {

// Whether the folder is that of a Megatron checkpoint in its own files, or one step of it: mp_rank_TT[_PPP] folders, or the file
// that names the newest step. Opens no tensor.
bool is_megatron_folder(const std::string& path);

// Whether it is one, or one of ModelLink with DeepSpeed: TAG/mp_rank_TT_model_states.pt (TAG as the file latest says, or the folder
// itself) that say Megatron's version; beside them ZeRO's shards may lie. A damaged file is a UserError.
bool holds_megatron(const std::string& path);

inline constexpr const char* kMegatronTracker = "latest_checkpointed_iteration.txt";
inline constexpr const char* kMegatronRelease = "release";  // of weights alone, in the place of a step
// "iter_0000100": the folder of ranks of a step.
std::string megatron_iteration(int64_t step);
// The folder of ranks that the tracker file names, or the path itself if it holds them. A tracker file that names none, or one that
// is not there, is a UserError.
std::string megatron_ranks(const std::string& path);
// Folders iter_NNNNNNN up to the one that the tracker file names, oldest first; none where it names none.
std::vector<std::string> megatron_checkpoints(const std::string& path);
// The number in "iter_0000100"; nothing of other names.
std::optional<int64_t> megatron_step(const std::string& folder);

}  // namespace ravine

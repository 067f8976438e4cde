#include <filesystem>

#include "files/tensor_set.h"
#include "io/adapter_folder.h"
#include "io/checkpoint.h"
#include "io/convert/convert.h"
#include "io/convert/dist_folder.h"
#include "io/convert/megatron_place.h"
#include "io/convert/mindformers.h"
#include "io/convert/trainer_state.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

bool has_dir(const std::string& path, std::string_view prefix) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_directory(error) && entry.path().filename().string().starts_with(prefix)) return true;
  return false;
}

// Returns the alphabetically first file of the folder with this ending; "" if there is none.
std::string first_file(const std::string& path, std::string_view end) {
  std::error_code error;
  std::string first;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (const std::string name = entry.path().string(); name.ends_with(end) && (first.empty() || name < first)) first = name;
  return first;
}

bool mindformers_names(const std::string& file) {
  const auto f = open_tensor_file(file);
  if (auto it = f->metadata().find("format"); it != f->metadata().end() && it->second == "ms") return true;
  for (const TensorInfo& t : f->tensors())
    if (is_mindformers_name(t.name)) return true;
  return false;
}

// Returns the layout of files *_model_states.pt. Files with Megatron's version are Megatron's: their module is whole
// and records its split over tensor ranks, also next to ZeRO's shards. Other files are ZeRO's.
Recognised states(const std::string& folder) {
  if (holds_megatron(folder))
    return {WeightLayout::megatron,
            std::string("Megatron weights in DeepSpeed's files") +
                (first_file(folder, "_optim_states.pt").empty() ? "" : "; masters in ZeRO's shards beside them are not read")};
  return {WeightLayout::deepspeed, "DeepSpeed ZeRO checkpoint"};
}

std::string megatron_form(const std::string& path) {
  std::string ranks = path;
  try {
    ranks = megatron_ranks(path);
  } catch (const UserError&) {  // reported when the checkpoint is opened
  }
  return is_dist_folder(ranks) ? "Megatron checkpoint (torch_dist: tensors in chunks, whatever ranks wrote them)"
                               : "Megatron checkpoint (one file per tensor and pipeline rank)";
}

}  // namespace

std::optional<Recognised> recognise(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (path.ends_with(".ckpt")) return Recognised{WeightLayout::mindformers, "MindSpore checkpoint file"};
    if (path.ends_with(".safetensors") && fs::exists(path, error) && mindformers_names(path))
      return Recognised{WeightLayout::mindformers, "MindFormers weight file"};
    return {};
  }
  if (find_adapter(path)) return {};
  if (is_checkpoint(path)) return Recognised{WeightLayout::ravine, "Ravine checkpoint"};
  if (holds_checkpoints(path)) return Recognised{WeightLayout::ravine, "folder of Ravine checkpoints"};
  if (holds_checkpoints(path + "/checkpoints")) return Recognised{WeightLayout::ravine, "Ravine run"};
  if (is_megatron_folder(path)) return Recognised{WeightLayout::megatron, megatron_form(path)};
  if (is_dist_folder(path)) return Recognised{WeightLayout::hf, "model in chunks of torch.distributed.checkpoint (FSDP)"};
  if (!first_file(path, "_model_states.pt").empty()) return states(path);
  if (fs::exists(path + "/latest") || fs::exists(path + "/latest_universal"))
    for (const auto& entry : fs::directory_iterator(path, error))
      if (entry.is_directory(error) && !first_file(entry.path().string(), "_model_states.pt").empty())
        return states(entry.path().string());
  if (is_trainer_checkpoint(path)) return Recognised{WeightLayout::trainer, "Trainer checkpoint (weights, optimizer.pt)"};
  if (has_dir(path, "rank_")) return Recognised{WeightLayout::mindformers, "MindFormers checkpoint (one file per rank)"};
  if (fs::exists(path + "/param_name_map.json") || !first_file(path, ".ckpt").empty())
    return Recognised{WeightLayout::mindformers, "MindFormers weights"};
  if (const std::string file = first_file(path, ".safetensors"); !file.empty()) {
    if (mindformers_names(file)) return Recognised{WeightLayout::mindformers, "MindFormers weights"};
    return Recognised{WeightLayout::hf, "Hugging Face model (safetensors)"};
  }
  if (fs::exists(path + "/pytorch_model.bin") || fs::exists(path + "/pytorch_model.bin.index.json") ||
      !first_file(path, ".bin").empty())
    return Recognised{WeightLayout::hf, "Hugging Face model (pytorch_model.bin)"};
  return {};
}

}  // namespace ravine

// Reads and writes weights in the folders of Megatron-LM, megatron-core and ModelLink: one torch file per tensor and
// pipeline rank.
//
//   DIR/latest_checkpointed_iteration.txt          "release" or a number;
//   DIR/release | iter_0000100/mp_rank_TT[_PPP]/model_optim_rng.pt
//   DIR/.../mp_rank_TT[_PPP]_EEE/model_optim_rng.pt  one per expert rank, with consecutive experts (read only);
//   DIR/latest, DIR/TAG/mp_rank_TT_model_states.pt   the same as DeepSpeed writes it (ModelLink).
//
// Names: legacy (Megatron 2023, ModelLink of 2024), mcore (local and Transformer-Engine spelling), classic (ModelLink
// on AscendSpeed, gate and up separate or joined as mlp.proj). Rows of q, k and v are stored per group: its query
// heads, k, v; gate above up per tensor rank. Experts have three forms: local_experts.E.linear_fc1, linear_fc1.weightE,
// or weight1 and weight2, stacked and transposed (megatron-core's experts.py, 2023 to 2025). Tensor ranks split them
// like an MLP.
#pragma once
#include <string>

#include "io/convert/expert_names.h"
#include "io/convert/target_folder.h"
#include "io/convert/weights.h"

namespace ravine {

// Reads the weights of a Megatron checkpoint; only headers are read at once. `config` (null: none) is the config of
// --model-config: it determines sizes and vocabulary. Without it a config.json in the folder is used (Ravine writes
// one), else the stored arguments. With the arguments, the vocabulary size is their true_vocab_size, else `vocabulary`
// (0: not known), else their vocab_size, else the size of a tokenizer next to the files. Without these sizes, rows at
// the end that repeat the last row are cut. Rows that are cut, and contradictions, are reported in `notes`. A missing
// rank, ranks of different steps or types, and names or shapes that do not fit are UserErrors. With `allow_unknown`
// unknown tensors are left out.
Weights read_megatron(const std::string& path, const Json& config, const std::string& config_where, bool allow_unknown,
                      StateKind kind = StateKind::weights, int64_t vocabulary = 0);

// Returns the weights of a Megatron checkpoint that is used as a model folder: checked, under the names of the family's
// files.
Weights open_megatron_model(const std::string& path);
// Returns the files of the checkpoint's ranks, sorted by path.
std::vector<std::string> megatron_files(const std::string& path);

enum class MegatronNames { legacy, mcore };
// The layout of a Megatron checkpoint to write.
struct MegatronLayout {
  MegatronNames names = MegatronNames::mcore;
  int64_t tensor = 1, pipeline = 1, virtual_stages = 1;
  ExpertNames experts = ExpertNames::grouped;
  std::string subfolder = "release/";  // folder of the rank folders; "": they are at the top
  // as ModelLink writes under DeepSpeed: files mp_rank_TT_model_states.pt and `latest`
  bool deepspeed = false;
  // Layers of each part of the pipeline, in order (--num-layer-list); empty: equal parts.
  std::vector<int64_t> stage_layers = {};
  int64_t vocabulary_multiple = 128;  // --make-vocab-size-divisible-by
};

// A file to write for one rank, with its tensors in the order of the parameters of Megatron's modules; `chunk` is the
// virtual stage.
struct MegatronFile {
  std::string path;  // "release/mp_rank_00/model_optim_rng.pt"
  struct Tensor {
    std::string name;
    int64_t chunk = 0;
    ElementsPtr elements;
  };
  std::vector<Tensor> tensors;
};
// Throws a UserError if the model's sizes are not divisible by the layout, or its names cannot hold the model. `where`
// is the model's path for messages.
void check_megatron_layout(const Geometry& g, const MegatronLayout& layout, const std::string& where);
// Checks the layout and returns the files to write with their tensors. Rows that pad the vocabulary repeat the last
// row; for `moments` they are zero.
std::vector<MegatronFile> plan_megatron(const Weights& weights, const Geometry& g, const MegatronLayout& layout,
                                        bool moments = false);
// Writes the files of plan_megatron and the tracker file; `progress` is called with the bytes written.
void write_megatron(TargetFolder& folder, const std::vector<MegatronFile>& files, const Weights& weights, const Geometry& g,
                    const MegatronLayout& layout, DType dtype, const std::function<void(int64_t)>& progress);

// Appends to `notes` the cases in which Megatron's own model computes otherwise than this family.
void megatron_notes(const Geometry& g, const MegatronLayout& layout, std::vector<std::string>& notes);
// Throws a UserError with the reason if Megatron cannot represent the model.
void refuse_for_megatron(const Geometry& g, const std::string& where);

// Returns the vocabulary size rounded up to a multiple of vocabulary_multiple * tensor.
int64_t padded_vocabulary(int64_t vocabulary, const MegatronLayout& layout);

}  // namespace ravine

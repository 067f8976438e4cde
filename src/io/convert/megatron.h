// Weights in the folders of Megatron-LM, megatron-core and ModelLink: one torch file per tensor and pipeline rank.
//
//   DIR/latest_checkpointed_iteration.txt          "release" or a number
//   DIR/release | iter_0000100/mp_rank_TT[_PPP]/model_optim_rng.pt
//   DIR/.../mp_rank_TT[_PPP]_EEE/model_optim_rng.pt     of several expert ranks, which hold neighbouring experts (read only)
//   DIR/latest, DIR/TAG/mp_rank_TT_model_states.pt   the same as DeepSpeed writes it (ModelLink)
//
// Names: legacy (Megatron 2023, ModelLink of 2024), mcore (local and Transformer-Engine spelling), classic (ModelLink on
// AscendSpeed, gate and up apart or joined as mlp.proj). Rows of q, k and v lie per group: its query heads, k, v; gate over up
// per tensor rank. Experts, in their three forms: local_experts.E.linear_fc1, linear_fc1.weightE, or stacked and turned, weight1
// and weight2 (megatron-core's experts.py, 2023 to 2025); they are cut over tensor ranks as an MLP is.
#pragma once
#include <string>

#include "io/convert/expert_names.h"
#include "io/convert/target_folder.h"
#include "io/convert/weights.h"

namespace ravine {

// Reads headers only. `config` (null: none) is what --model-config gave: it decides sizes and vocabulary; without it a
// config.json in the folder does (this program writes one), else the stored arguments. The vocabulary is then that of the
// arguments, else of a tokenizer beside the files, else without the rows that repeat the last: what is cut, and who disagrees,
// stands in `notes`. A missing rank, ranks of different steps or types, and names or shapes that do not fit are UserErrors.
// With `allow_unknown` unknown tensors are left out.
Weights read_megatron(const std::string& path, const Json& config, const std::string& config_where, bool allow_unknown,
                      StateKind kind = StateKind::weights);

// The same as a model's folder holds it: checked, under the names of the family's files.
Weights open_megatron_model(const std::string& path);
// The files of its ranks, by their names; sorted.
std::vector<std::string> megatron_files(const std::string& path);

enum class MegatronNames { legacy, mcore };
struct MegatronLayout {
  MegatronNames names = MegatronNames::mcore;
  int64_t tensor = 1, pipeline = 1, virtual_stages = 1;
  ExpertNames experts = ExpertNames::grouped;
  std::string place = "release/";  // of the folders of ranks; "": they are at the top
  bool deepspeed = false;          // files mp_rank_TT_model_states.pt and `latest`, as ModelLink has them under DeepSpeed
  std::vector<int64_t> stage_layers =
      {};                             // layers of each part of the pipeline, in order (--num-layer-list); empty: equal parts
  int64_t vocabulary_multiple = 128;  // --make-vocab-size-divisible-by
};

// A file of one rank: which tensors it holds, in the order of the parameters of Megatron's modules; chunk counts virtual stages.
struct MegatronFile {
  std::string path;  // "release/mp_rank_00/model_optim_rng.pt"
  struct Tensor {
    std::string name;
    int64_t chunk = 0;
    ElementsPtr elements;
  };
  std::vector<Tensor> tensors;
};
// A UserError where the model's sizes do not divide by the layout, or its names cannot hold the model. `where`: of the model.
void check_megatron_layout(const Geometry& g, const MegatronLayout& layout, const std::string& where);
// What the layout consists of, checked. Rows that pad the vocabulary repeat the last one; of
// moments they are zero.
std::vector<MegatronFile> plan_megatron(const Weights& weights, const Geometry& g, const MegatronLayout& layout,
                                        bool moments = false);
// Writes files and tracker; `progress` is called with the bytes written.
void write_megatron(TargetFolder& folder, const std::vector<MegatronFile>& files, const Weights& weights, const Geometry& g,
                    const MegatronLayout& layout, DType dtype, const std::function<void(int64_t)>& progress);

// What the user should know of it: where Megatron's own model computes otherwise than this family.
void megatron_notes(const Geometry& g, const MegatronLayout& layout, std::vector<std::string>& notes);
// A model that Megatron's cannot be is a UserError that says by what.
void refuse_for_megatron(const Geometry& g, const std::string& where);

int64_t padded_vocabulary(int64_t vocabulary, const MegatronLayout& layout);  // to vocabulary_multiple * tensor

}  // namespace ravine

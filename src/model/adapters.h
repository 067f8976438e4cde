// Which modules of a model get adapters: LoRA (Hu et al. 2021) by the rules of PEFT 0.21 (peft/tuners/lora/config.py,
// tuners_utils.py check_target_module_exists, other.py get_pattern_key).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/choices.h"
#include "model/model.h"

namespace ravine {

struct LoraSettings {
  int64_t rank = 0;  // 0: none
  double alpha = 8, dropout = 0;
  bool rslora = false;  // scale alpha / sqrt(rank), else alpha / rank
  std::vector<std::string>
      targets;                 // ends of module names at a dot, as files have them; "all-linear": all linear layers of layers
  bool targets_whole = false;  // one target, a regular expression of the whole name
  std::map<std::string, int64_t> rank_pattern;  // of modules whose name matches (.*\.)?(key)
  std::map<std::string, double> alpha_pattern;
  std::vector<int64_t> layers;    // that get adapters; empty: all
  std::vector<std::string> save;  // modules trained whole: names that end so
  bool ties_weights = false;      // of a tied base, embedding and head are trained whole as one table (ensure_weight_tying)
  std::string where;              // for messages: the option or the file
  std::map<std::string, std::string> places;  // of options: where each that was given stands, by key
  std::string where_of(const std::string& key) const;
  bool from_options = false;  // not from a file: a pattern that matches nothing is a mistake
};

// Ends of module names with those that the family's files do not have, but Megatron has, as the files spell them: on Llama
// "query_key_value" is q_proj, k_proj, v_proj. Source: ModelLink 1.0, --lora-target-modules, --lora-modules-to-save.
std::vector<std::string> family_spelling(const Model& base, const std::vector<std::string>& ends);

// What adapter each module gets, by its declared name. A UserError where a target matches nothing (with the modules there are),
// or where what is asked for cannot be.
std::map<std::string, AdapterSpec> adapter_specs(const Model& base, const LoraSettings& lora);

// Whether embedding or head is trained whole.
bool saves_table(const Model& base, const LoraSettings& lora);
// Embedding and head that are one table in the base: whether one that is trained whole has a table of its own, as PEFT has it
// where ties_weights does not say otherwise; the model then is the untied one (model/vocabulary.h).
bool copies_table(const Model& base, const LoraSettings& lora);
// The same, or an adapter stands beside one of them: merged, they are two tables.
bool parts_tables(const Model& base, const LoraSettings& lora);

// The same model with adapters declared beside its weights, all frozen but adapters and whole modules. A UserError where a
// target or a whole module matches nothing (with the modules there are), or where what is asked for cannot be.
std::unique_ptr<Model> with_adapters(const Model& base, const LoraSettings& lora);

// Says of what is frozen beside the adapters how it is kept (Param::kept): matrices of linear layers as `base` says, embedding
// and head, which keep no blocks as in QLoRA, in the compute type alone.
void keep_base(Model& model, BaseStorage base);
// Bytes of the matrices that keep_base has put into blocks, and their elements; of all tensor ranks together.
struct BlockedBase {
  int64_t bytes = 0, elements = 0;
};
BlockedBase blocked_base(const Model& model);

// How adapter_model.safetensors spells what is trained: lora_A, lora_B, and whole modules. Only for a model with adapters.
WeightFiles adapter_files(const Model& model);

}  // namespace ravine

// Chooses the modules of a model that get adapters: LoRA (Hu et al. 2021) by the rules of PEFT 0.21
// (peft/tuners/lora/config.py, tuners_utils.py check_target_module_exists, other.py get_pattern_key).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/choices.h"
#include "model/model.h"

namespace ravine {

struct LoraSettings {
  int64_t rank = 0;  // 0: no adapters
  double alpha = 8, dropout = 0;
  bool rslora = false;  // scale alpha / sqrt(rank), else alpha / rank
  // The modules that get adapters: ends of module names at a dot, as files spell them; "all-linear": all linear layers
  // of the model's layers.
  std::vector<std::string> targets;
  bool targets_whole = false;                   // one target, a regular expression for the whole name
  std::map<std::string, int64_t> rank_pattern;  // for modules whose name matches (.*\.)?(key)
  std::map<std::string, double> alpha_pattern;
  std::vector<int64_t> layers;    // layers that get adapters; empty: all
  std::vector<std::string> save;  // ends of the names of modules that are trained whole
  // true: if embedding and head of the base are one table and one of them is trained whole, both stay one table (PEFT's
  // ensure_weight_tying).
  bool ties_weights = false;
  std::string where;                           // for messages: the option or the file
  std::map<std::string, std::string> sources;  // for messages: the place of each option that is set, by key
  std::string where_of(const std::string& key) const;
  bool from_options = false;  // true: not from a file; then a pattern that matches nothing is a UserError
};

// Translates module names (their ends, as in lora.targets) to the spelling of the family's files. Names that the files
// do not have are read as Megatron's: on Llama "query_key_value" is q_proj, k_proj, v_proj. Source: ModelLink 1.0,
// --lora-target-modules, --lora-modules-to-save.
std::vector<std::string> family_spelling(const Model& base, const std::vector<std::string>& ends);

// Returns the adapter of each module that the settings select, by the declared name of the module. A UserError if a
// target matches nothing (with the list of modules), or if a setting cannot be applied.
std::map<std::string, AdapterSpec> adapter_specs(const Model& base, const LoraSettings& lora);

// True if the settings of an adapter train the embedding or the head as a whole module (LoraSettings::save).
bool saves_table(const Model& base, const LoraSettings& lora);
// True if embedding and head are one table in the base, and one of them is trained whole with a table of its own. PEFT
// does so unless ties_weights is set. The model with the adapter then has two tables (model/vocabulary.h).
bool copies_table(const Model& base, const LoraSettings& lora);
// True if embedding and head are one table in the base, and become two tables if the adapter is merged: copies_table()
// is true, or one of them has an adapter.
bool parts_tables(const Model& base, const LoraSettings& lora);

// Returns a copy of the model with the adapters that the settings select. All parameters are frozen except adapters and
// modules trained whole. A UserError if a target or a whole module matches nothing (with the list of modules), or if a
// setting cannot be applied.
std::unique_ptr<Model> with_adapters(const Model& base, const LoraSettings& lora);

// Sets how the frozen parameters of a model with adapters are stored (ParamPolicy::kept). Matrices of linear layers are
// stored in the form `base`. Embedding and head are stored in the compute type alone, never in blocks, as in QLoRA.
void keep_base(Model& model, BaseStorage base);
// Bytes and elements of the matrices that a model stores in blocks of 4 bits (keep_base), over all tensor ranks. The
// result of blocked_base.
struct BlockedBase {
  int64_t bytes = 0, elements = 0;
};
BlockedBase blocked_base(const Model& model);

// Returns the file names of the parameters that an adapter folder stores (adapter_model.safetensors): lora_A, lora_B,
// and whole modules. Only for a model with adapters.
WeightFiles adapter_files(const Model& model);

}  // namespace ravine

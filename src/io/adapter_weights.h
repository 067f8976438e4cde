// Adapters into a model and out of one: PEFT's folders (adapter_config.json as settings, adapter_model.safetensors, or .bin,
// whose pickle is not executed, as weights), and for reading ModelLink's checkpoints of LoRA (io/adapter_source.h). Source: peft
// 0.21, tuners/lora/config.py, utils/save_and_load.py.
#pragma once
#include <string>

#include "files/tensor_file.h"
#include "io/adapter_config.h"
#include "io/adapter_folder.h"
#include "io/huggingface.h"
#include "model/adapters.h"

namespace ravine {

// What the adapter of `folder` says of itself beside `base`. UserErrors: those of open_adapter and settings_of.
LoraSettings adapter_settings(const std::string& folder, const Model& base);

// `base`, as its folder has it, with the adapter of `folder` declared beside its weights; where the adapter holds whole tables
// of another vocabulary, as PEFT writes them of a model that was resized before, it has theirs. A UserError where the tables
// that it holds are not all of the model's, and what with_adapters and check_adapter refuse.
std::unique_ptr<Model> with_adapter_of(const std::string& folder, const Model& base);
// The vocabulary of these tables; that of `base` where the adapter has none.
int64_t adapter_vocabulary(const std::string& folder, const Model& base);
// How the file spells what is read of it: adapters, whole modules, and tables that PEFT writes beside these unasked, of a model
// whose vocabulary was resized. A tied head among them is the embedding once more, which nobody reads.
WeightFiles adapter_files_in(const TensorFile& file, const Model& model);
// Reads A, B and whole modules of `folder` into store.master(): each must be there once, in its shape. A file that belongs to
// another base is a UserError that names the first tensor that differs. `model` is with_adapters(.., adapter_settings(folder, ..)).
void load_adapter(const std::string& folder, const Model& model, WeightSource& store);
void check_adapter(const std::string& folder, const Model& model);  // headers only

// Writes the adapter in f32, with what it was taught to talk by: tokenizer, chat template and generation_config.json of
// `options`, as far as there are any (TRL keeps a tokenizer there too). `base`: base_model_name_or_path. Blocks until the
// folder is on disk; errors as save_model_folder.
void save_adapter(const SaveFolder& options, const std::string& base, const LoraSettings& lora, const Model& model,
                  WeightSource& store);

}  // namespace ravine

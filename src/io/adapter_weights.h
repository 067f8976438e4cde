// Adapters of PEFT into a model and out of one: adapter_config.json as settings, adapter_model.safetensors (or .bin, whose
// pickle is not executed) as weights. Source: peft 0.21, tuners/lora/config.py, utils/save_and_load.py.
#pragma once
#include <string>

#include "files/tensor_file.h"
#include "io/adapter_folder.h"
#include "io/huggingface.h"
#include "model/adapters.h"

namespace ravine {

// What adapter_config.json says; `where` of it names the file. A kind of adapter, or a field of LoRA, that the arithmetic of
// model/adapters.h does not have is a UserError that names it: DoRA, biases, AdaLoRA, ...
LoraSettings adapter_settings(const std::string& folder);

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
// another base is a UserError that names the first tensor that differs. `model` is with_adapters(.., adapter_settings(folder)).
void load_adapter(const std::string& folder, const Model& model, WeightSource& store);
void check_adapter(const std::string& folder, const Model& model);  // headers only

// What adapter_config.json says of an adapter: `base` as base_model_name_or_path, `lora` as it was asked for. `model` is
// with_adapters(.., lora).
Json adapter_config_of(const LoraSettings& lora, const Model& model, const std::string& base);

// Writes the adapter in f32, with what it was taught to talk by: tokenizer, chat template and generation_config.json of
// `options`, as far as there are any (TRL keeps a tokenizer there too). `base`: base_model_name_or_path. Blocks until the
// folder is on disk; errors as save_model_folder.
void save_adapter(const SaveFolder& options, const std::string& base, const LoraSettings& lora, const Model& model,
                  WeightSource& store);

}  // namespace ravine

// Reads adapters into a model and writes them. PEFT folders are read and written: settings from adapter_config.json,
// weights from adapter_model.safetensors or .bin, whose pickle is not executed. ModelLink's LoRA checkpoints are read
// only (io/adapter_source.h). Source: peft 0.21, tuners/lora/config.py, utils/save_and_load.py.
#pragma once
#include <string>

#include "files/tensor_file.h"
#include "io/adapter_config.h"
#include "io/adapter_folder.h"
#include "io/huggingface.h"
#include "model/adapters.h"

namespace ravine {

// Returns the settings of the adapter in `folder` for the model `base`. Throws the UserErrors of open_adapter and
// settings_of.
LoraSettings adapter_settings(const std::string& folder, const Model& base);

// Returns the model `base` with the adapter of `folder` declared as additional parameters. If the adapter holds whole
// tables with another vocabulary size, the result has the adapter's size. PEFT writes such tables for a model that was
// resized before. A UserError if the adapter holds only some of the model's tables, or if with_adapters or
// check_adapter throws one.
std::unique_ptr<Model> with_adapter_of(const std::string& folder, const Model& base);
// Returns the number of rows of the adapter's whole tables; the vocabulary size of `base` if the adapter has none.
int64_t adapter_vocabulary(const std::string& folder, const Model& base);
// Returns the table of all tensors to read from an adapter file: adapters, whole modules, and vocabulary tables. PEFT
// adds such tables without request if the vocabulary of the model was resized. A tied head among them is a copy of the
// embedding and is not read.
WeightFiles adapter_files_in(const TensorFile& file, const Model& model);
// Reads the weights of the adapter in `folder` into store.master(): A, B and whole modules. Each tensor must be in the
// file once, with its shape. A file that belongs to another base is a UserError that names the first tensor that
// differs. `model` is with_adapters(.., adapter_settings(folder, ..)).
void load_adapter(const std::string& folder, const Model& model, WeightSource& store);
// Checks the adapter in `folder` as load_adapter does, with the same UserErrors, and loads nothing. Reads headers, and
// compares the values of tables that are stored twice.
void check_adapter(const std::string& folder, const Model& model);

// Writes the adapter of `model` as a PEFT folder, in f32. Tokenizer, chat template and generation_config.json of
// `options` are written too, if they are set; TRL also keeps a tokenizer in the adapter's folder. `base` becomes
// base_model_name_or_path. Blocks until the folder is on disk; errors as in save_model_folder.
void save_adapter(const SaveFolder& options, const std::string& base, const LoraSettings& lora, const Model& model,
                  WeightSource& store);

}  // namespace ravine

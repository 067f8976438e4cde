// Reads and writes model folders in the form of Hugging Face Transformers: config.json, generation_config.json, weights
// in safetensors (one file, or shards with an index), tokenizer files. Layout: huggingface.co/docs/safetensors and
// PreTrainedModel.save_pretrained. User mistakes are UserErrors that name the file and the tensor or key.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "files/folder_mark.h"
#include "model/model.h"

namespace ravine {

// Reads every parameter of `model` into store.master(); on meta only the files' headers are checked. Stored f64, f32,
// bf16 and f16 are converted and rounded once. Blocks until all is read; runs in parallel_for. The files are found as
// in Transformers (io/open_weights.h): safetensors, else pytorch_model*.bin. Each parameter must be stored once, in its
// shape and a floating type, with or without the family's base prefix ("model."). Tensors that the family's files join
// or store transposed are split and transposed. Tied parameters are not read, and constant buffers (rotary inv_freq)
// are ignored; any other tensor is a UserError, before weights change. Returns the names in the files, by index of
// model.files().tensors. `wanted` (null: all) selects the parameters; the others keep their values.
std::vector<std::string> load_weights(const std::string& folder, const Model& model, WeightSource& store,
                                      const std::function<bool(const Param&)>& wanted = {});
// Reads every parameter of `model` into store.master(), like load_weights, from weights of any layout that `ravine
// convert` reads (io/convert/convert.h). The shapes of their tensors follow from the model's config.
void load_weights_of(const std::string& path, const Model& model, WeightSource& store,
                     const std::function<bool(const Param&)>& wanted = {});
// Checks the weight files of `folder` for `model` by their headers; throws the errors of load_weights.
void check_weights(const std::string& folder, const Model& model);

// A function that returns, by name, the texts of files that a folder with a tokenizer lacks for readers of other
// libraries (text/tokenizers/sentencepiece_json.h). A null function adds nothing.
using MissingTokenizerFiles = std::function<std::map<std::string, std::string>(const std::string& folder)>;

// The settings for writing a model folder or an adapter folder.
struct SaveFolder {
  // The folder to write. It appears complete or not at all; at the end it replaces a model folder of that name by the
  // same run.
  std::string dir;
  DType dtype = DType::f32;             // type of the stored weights: f32, bf16, f16 (or f64)
  int64_t shard_bytes = 5'000'000'000;  // most bytes of one file; more weights are split into shards; 0: one file
  std::string tokenizer;                // folder or one file (tokenizer.model, tokenizer.json, .xz) to copy; "": none
  MissingTokenizerFiles missing_tokenizer_files;
  Json generation = Json::object();  // fields of generation_config.json; missing token ids are added from the model
  std::string chat_template;         // Jinja, written as chat_template.jinja; empty: the tokenizer's
  std::string run;                   // the run that writes the folder: recorded in its mark (files/folder_mark.h)
  FolderMark seen;                   // files of the replaced folder that refuse_foreign_model has read already
};

// Throws a UserError if a model of this run may not replace `folder`, since data would be lost: another run's folder,
// or a file added or changed since. The message names the file. `seen` is kept between calls: files already read and
// not touched since are not read again. If `seen` is null, the check is quick and reads little (`glance` of
// foreign_in_folder).
void refuse_foreign_model(const std::string& folder, const std::string& run, FolderMark* seen);

// Writes a model folder with the current master weights, named and laid out like files of its family. Tied parameters
// are not stored. config.json has the fields as read, with an updated dtype. Blocks until the folder is on disk.
// DiskFull, or a UserError for an unusable path, leaves the old folder unchanged. If refuse_foreign_model throws only
// at the end, the old folder stays too; the new folder is then kept as DIR.new-N, which the error names.
void save_model_folder(const SaveFolder& options, const Model& model, WeightSource& store);
// Writes the tokenizer and the chat template of `options` into the folder `into`; with `generation` also
// generation_config.json. No weights are written.
void save_chat_files(const SaveFolder& options, const std::string& into, const Model& model, bool generation);

// Copies the files of a tokenizer into the folder `into` under the names that Transformers uses; .xz and similar files
// are decompressed. `source` is a single file or a folder; from a folder without a tokenizer nothing is copied.
void copy_tokenizer(const std::string& source, const std::string& into, const MissingTokenizerFiles& missing = {});

}  // namespace ravine

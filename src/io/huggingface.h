// Model folders as Hugging Face Transformers reads and writes them: config.json, generation_config.json, weights in safetensors
// (one file, or shards with an index), tokenizer files. Layout: huggingface.co/docs/safetensors and
// PreTrainedModel.save_pretrained. What a user can get wrong is a UserError naming the file and the tensor or key.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "files/folder_mark.h"
#include "model/model.h"

namespace ravine {

// Reads every parameter of `model` into store.master(); on meta only the files' headers are checked. Stored f64, f32, bf16 and
// f16 are converted on the way, rounded once. Blocks until all is read; runs in parallel_for. Sources, as Transformers looks
// for them (io/open_weights.h): safetensors, else pytorch_model*.bin. Each parameter must be
// there once, in its shape and a floating type, with or without the family's base prefix ("model."); what files of the family
// join or store transposed is cut and turned. Tied parameters are not read, constant buffers (rotary inv_freq) are passed over;
// any other tensor is refused, before weights change. Returns the names as the folder spells them, by index of
// model.files().tensors. `wanted` (null: all) leaves the others as they are.
std::vector<std::string> load_weights(const std::string& folder, const Model& model, WeightSource& store,
                                      const std::function<bool(const Param&)>& wanted = {});
// The same from weights of any layout that convert reads (io/convert/convert.h), of the shape that the model's config says.
void load_weights_of(const std::string& path, const Model& model, WeightSource& store,
                     const std::function<bool(const Param&)>& wanted = {});
// Reads only headers; throws what load_weights would.
void check_weights(const std::string& folder, const Model& model);

// What a folder with a tokenizer lacks for readers of other libraries, as name and text of files
// (text/tokenizers/sentencepiece_json.h); none: nothing is added.
using MissingTokenizerFiles = std::function<std::map<std::string, std::string>(const std::string& folder)>;

struct SaveFolder {
  std::string
      dir;  // appears whole or not at all; a model folder of that name that the same run has made is replaced at the end
  DType dtype = DType::f32;  // of the stored weights: f32, bf16, f16 (or f64)
  int64_t shard_bytes =
      5'000'000'000;      // weights in one file up to this many bytes, else in shards of at most that; 0: one file
  std::string tokenizer;  // folder or single file (tokenizer.model, tokenizer.json, also .xz) to copy; "": none
  MissingTokenizerFiles missing_tokenizer_files;
  Json generation = Json::object();  // fields of generation_config.json to keep; ids missing in it are added from the model
  std::string chat_template;         // Jinja, written as chat_template.jinja; empty: what came with the tokenizer
  std::string run;                   // who makes it: recorded in its mark (files/folder_mark.h)
  FolderMark seen;                   // what refuse_foreign_model has seen of the folder that is replaced
};

// What would be lost if `folder` were replaced by a model of this run: a folder that it has not made, a file that was put there
// or changed since. A UserError that names it. `seen` is kept from one call to the next: what has been read, and has not been
// touched since, is not read again. Null: a glance (foreign_in_folder).
void refuse_foreign_model(const std::string& folder, const std::string& run, FolderMark* seen);

// Writes the model with its present masters, named and laid out as files of its family are. Tied parameters are not stored;
// config.json has the fields as read with dtype updated. Blocks until the folder is on disk. DiskFull, or UserError for a path
// that cannot be used, leaves the old folder as it was; so does what refuse_foreign_model finds only at the end, and the new
// folder stays beside it as DIR.new-N, which is told.
void save_model_folder(const SaveFolder& options, const Model& model, WeightSource& store);
// Of these only the tokenizer, the template and, with `generation`, generation_config.json.
void save_talk(const SaveFolder& options, const std::string& into, const Model& model, bool generation);

// Copies the files of a tokenizer into the folder, by the names that Transformers looks for; .xz and the like unpacked.
// `source` is a folder (one without a tokenizer is fine) or a single file.
void copy_tokenizer(const std::string& source, const std::string& into, const MissingTokenizerFiles& missing = {});

}  // namespace ravine

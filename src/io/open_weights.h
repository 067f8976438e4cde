// The files that hold the weights of a Hugging Face folder, as Transformers looks for them: model.safetensors;
// model.safetensors.index.json and its shards; pytorch_model.bin; pytorch_model.bin.index.json and its shards. Where none is,
// all *.safetensors; else all pytorch_model*.bin; else the ranks of a Megatron checkpoint (io/convert/megatron.h), or the shards of
// a DeepSpeed checkpoint (checkpoint-N of the Trainer), whose f32 masters count (io/convert/zero_checkpoint.h). Pickled files are read by files/torch_file.h, which executes nothing.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/tensor_file.h"

namespace ravine {

// The paths of these files, sorted; empty: there are none. An index that cannot be read is a UserError.
std::vector<std::string> weight_files(const std::string& folder);

// Opens them and reads what they say about their tensors. A folder without weights, an index that names no file or a file that
// lacks a tensor is a UserError.
std::vector<std::unique_ptr<TensorFile>> open_weights(const std::string& folder);

// Of a model that a run has exported (files/folder_mark.h) the weight files hold what the run wrote; another byte in one is a
// UserError. Every byte is compared; not `thorough`: only of files that were touched or copied since. Of other folders nothing
// is known.
void check_export(const std::string& folder, bool thorough);

// The one type of all floating tensors of a folder; nothing where they have several. Reads headers only; throws what
// open_weights does.
std::optional<DType> weights_type(const std::string& folder);

// What the files hold that open_weights would read of a model folder: their sizes and 256 blocks of each, spread evenly; names
// and places do not count. "" without such files. One that cannot be read, or is no file of weights but a pointer of Git LFS,
// is a UserError.
std::string weights_checksum(const std::string& model_folder);

// Tensor to file, from the "weight_map" of the text of an index; a file is one of the same folder, or it is a UserError naming
// `path`.
std::vector<std::pair<std::string, std::string>> parse_weight_index(const std::string& text, const std::string& path);

}  // namespace ravine

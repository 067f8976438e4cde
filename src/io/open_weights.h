// Finds and opens the weight files of a Hugging Face folder, in the order of Transformers: model.safetensors;
// model.safetensors.index.json and its shards; pytorch_model.bin; pytorch_model.bin.index.json and its shards. If there
// are none: all *.safetensors; else all pytorch_model*.bin; else the ranks of a Megatron checkpoint
// (io/convert/megatron.h); else the shards of a DeepSpeed checkpoint (checkpoint-N of the Trainer), whose f32 masters
// are used (io/convert/zero_checkpoint.h). Pickled files are read by files/torch_file.h, which executes nothing.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/tensor_file.h"

namespace ravine {

// Returns the paths of the weight files of a Hugging Face folder, sorted; empty if there are none. The search follows
// the order of Transformers. An unreadable index is a UserError.
std::vector<std::string> weight_files(const std::string& folder);

// Opens the weight files of a Hugging Face folder and reads their headers. A folder without weights, an index that
// names no file, or a file that lacks a tensor of the index is a UserError.
std::vector<std::unique_ptr<TensorFile>> open_weights(const std::string& folder);

// Checks that the weight files of an exported model have the bytes that its run wrote (files/folder_mark.h); a changed
// byte is a UserError. With `thorough` every byte is compared, else only in files that were touched or copied since.
// Folders that no run exported are not checked.
void check_export(const std::string& folder, bool thorough);

// Returns the common type of all floating tensors of a folder; nothing if they have several types. Reads headers only;
// throws the errors of open_weights.
std::optional<DType> weights_type(const std::string& folder);

// Returns a checksum of the weight files of a model folder; "" if it has none. It covers their sizes and 256 blocks of
// each file, spread evenly; names and paths are not covered. A file that cannot be read, or is a pointer of Git LFS
// instead of weights, is a UserError.
std::string weights_checksum(const std::string& model_folder);

// Returns (tensor, file) pairs from the "weight_map" in the text of an index. A file outside the same folder is a
// UserError that names `path`.
std::vector<std::pair<std::string, std::string>> parse_weight_index(const std::string& text, const std::string& path);

}  // namespace ravine

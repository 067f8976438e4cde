// Names and layout of the parameters in the weight files of a family: names, joined matrices, transposed matrices.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/param.h"

namespace ravine {

// The names of a family's modules in weight files. Names are of modules, without ".weight" and ".bias".
struct CheckpointNames {
  const char* architecture = "";         // Transformers' class, for "architectures" in config.json
  const char* base = "model.";           // prefix that is absent in files of the bare model
  const char* layers = "model.layers.";  // prefix before the number of a layer
  // The names of modules: declared name -> name in files; for layers without the prefix "model.layers.N.". Several
  // declared names with the same name in files are one tensor there. For a stack of experts, "{}" in the name in files
  // is the number of the expert; each expert's matrix is one tensor. The default is `mlp.experts.{}.gate_proj`.
  std::vector<std::pair<const char*, const char*>> modules;
  // The order of q, k and v in a tensor that joins them. per_head: q, k, v of head 0, then of head 1, and so on.
  enum Joined : uint8_t { stacked, per_head } joined = stacked;
  bool transposed = false;             // matrices of layers are stored as [in, out]
  std::vector<const char*> constants;  // ends of the names of buffers that some versions store; not read
  // Number of layers in the files behind the last layer of the model: heads that predict further tokens (DeepSeek-V3),
  // which are not read.
  int64_t further_layers = 0;
  // The spelling of names in MindSpore Transformers: its Llama class, its newer classes (core, as Megatron-core), or
  // none if unknown.
  enum class MindFormers : uint8_t { none, llama, core } mindformers = MindFormers::none;
};

// One tensor of the weight files, and the parameters whose rows it contains. A row is one output: an index of the
// outermost dim, or of the innermost dim if the tensor is transposed. The rows of a stack of matrices [E,F,C] are
// numbered across all matrices: E F rows.
struct FileTensor {
  struct Run {  // rows [row, row + count) of the tensor are rows [param_row, ..) of params[param]
    size_t param;
    int64_t param_row, row, count;
  };
  std::string name;
  std::vector<const Param*> params;
  Shape shape;  // in the file
  bool transposed = false;
  std::vector<Run> runs;  // in order of `row`, without gaps
  bool of_stack() const {
    return params.size() == 1 && params[0]->shape.rank() == 3;
  }  // true if it is one matrix of a stack in one parameter
};
int64_t rows_of(const Param& p);  // number of rows, one per output; 1 for a scalar

struct WeightFiles {
  std::string architecture, base;
  std::vector<FileTensor> tensors;  // in the order of the parameters
  std::vector<std::string> copies;  // names of tied parameters: read if the files hold the table under this name only
  std::vector<std::string> constants;
  std::vector<std::string> further;  // beginnings of the names of further layers
  bool constant(const std::string& name) const;
  bool is_further(const std::string& name) const;
};

// Returns the tensors of a model's weight files: names, shapes and rows of all parameters. head_size: rows of a head in
// a tensor that is joined per head.
WeightFiles weight_files(const ParamSet& params, const CheckpointNames& names, int64_t layers, int64_t head_size);
// The message about layers in the files that the model does not have (CheckpointNames::further_layers).
inline constexpr const char* kFurtherLayers =
    "left out: heads that predict further tokens (multi-token prediction), which are not offered yet; the model itself is whole";

}  // namespace ravine

// How the weight files of a family spell and lay out the declared parameters: names, joined matrices, transposed ones.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/param.h"

namespace ravine {

// A family's table. Names are of modules, without ".weight" and ".bias".
struct CheckpointNames {
  const char* architecture = "";         // Transformers' class, for "architectures" of config.json
  const char* base = "model.";           // prefix that files of the bare model lack
  const char* layers = "model.layers.";  // before the number of a layer
  // Declared name -> name in files; of layers, what follows "model.layers.N.". Several that have one name in files are one
  // tensor there. Of a stack of experts "{}" stands in the name in files for the number of the expert, whose matrix is one
  // tensor; where nothing is said, it is `mlp.experts.{}.gate_proj`.
  std::vector<std::pair<const char*, const char*>> modules;
  // How q, k and v lie in a tensor that joins them: one under the other, or per head (q, k, v of head 0, then of head 1, ...).
  enum Joined : uint8_t { stacked, per_head } joined = stacked;
  bool transposed = false;             // matrices of layers are stored [in, out]
  std::vector<const char*> constants;  // ends of names of buffers that some versions store and nobody reads
  // Layers behind the last one that files may hold: heads that predict further tokens (DeepSeek-V3). Nobody reads them.
  int64_t further_layers = 0;
  // MindSpore Transformers' spelling: of its Llama class, of its newer ones (as Megatron-core), or none that is known.
  enum class MindFormers : uint8_t { none, llama, core } mindformers = MindFormers::none;
};

// One tensor of the files. Rows are of its outermost dim, or of the innermost where it is stored transposed: an output each.
// Those of a stack of matrices [E,F,C] are counted through all of them: E F rows.
struct FileTensor {
  struct Run {  // rows [row, row + count) of the file's are rows [param_row, ..) of params[param]
    size_t param;
    int64_t param_row, row, count;
  };
  std::string name;
  std::vector<const Param*> params;
  Shape shape;  // in the file
  bool transposed = false;
  std::vector<Run> runs;                                                                // in order of `row`, without gaps
  bool of_stack() const { return params.size() == 1 && params[0]->shape.rank() == 3; }  // a matrix of many in one parameter
};
int64_t rows_of(const Param& p);  // an output each; 1 of a number

struct WeightFiles {
  std::string architecture, base;
  std::vector<FileTensor> tensors;  // in order of the parameters
  std::vector<std::string> copies;  // names of tied parameters: read where the files hold the tied table so alone
  std::vector<std::string> constants;
  std::vector<std::string> further;  // beginnings of names of further layers
  bool constant(const std::string& name) const;
  bool is_further(const std::string& name) const;
};

// head_size: rows of a head in a tensor that is joined per head.
WeightFiles weight_files(const ParamSet& params, const CheckpointNames& names, int64_t layers, int64_t head_size);
// What to tell of further layers that files hold.
inline constexpr const char* kFurtherLayers =
    "left out: heads that predict further tokens (multi-token prediction), which are not offered yet; the model itself is whole";

}  // namespace ravine

// A model folder that is loaded for running: its declaration, its weights, and the kernels. trace and generate use it.
// On several ranks each rank reads and holds its part.
#pragma once
#include <memory>
#include <string>

#include "config/config.h"
#include "kernels/backend.h"
#include "model/model.h"
#include "parallel/flat_store.h"
#include "parallel/inference_store.h"
#include "parallel/stage.h"

namespace ravine {

// The distribution of a loaded model over ranks: the ranks, and options of pipeline, ZeRO and sequence parallelism.
struct InferenceLayout {
  std::shared_ptr<const Ranks> ranks = std::make_shared<Ranks>();  // default: one rank
  ParallelOptions options;     // used: stage_layers, virtual, zero, zero_threshold, sequence
  int64_t ranks_per_host = 1;  // ranks that share the memory of a host
};

struct LoadedModel {
  std::string folder, adapter;  // adapter: a PEFT folder whose weights are loaded too; "": none
  std::unique_ptr<Model> model;
  Kernels kernels;
  Types types;
  InferenceLayout spread;
  // The range of blocks of each pipeline part (parallel/stage.h); empty: one range of all blocks.
  std::vector<BlockRange> parts;
  std::unique_ptr<WeightSource> store;
  // Names of the tensors in the folder, in the order of model->files().tensors; empty for random weights.
  std::vector<std::string> stored_names;
  // `store` as a FlatStore; null if it is another kind of store. The store is a FlatStore if it can hold gradients
  // (OpenFor::gradients), is sharded over data ranks (ZeRO 3), or holds blocks of 4 bits.
  FlatStore* trainable = nullptr;

  // base: the model whose weights this one shares, if load_on_base() made it; else null. adapters: the adapters, if
  // adapters of linear layers are the only difference from the base; else null. A batch of the base's model may then
  // contain rows of both models (infer/prompt_models.h).
  const LoadedModel* base = nullptr;
  const AdapterSet* adapters = nullptr;

  const Ranks& ranks() const { return *spread.ranks; }
  std::vector<int> stages() const { return stages_of_units(*model, parts, ranks().mesh().pipeline); }  // by Unit::index
  bool last_stage() const { return ranks().last_stage(); }  // true on the stage that computes logits

  // Returns the arguments of a Ctx that runs this model forward, without stash and observers. The Ctx refers to this
  // model, which must outlive it and must not be moved.
  Ctx::Setup setup(Arena& arena) const;
};

// The use for which a model is loaded; decides how its weights are stored.
// running: one copy of each weight, in the type that kernels read, rounded from the type of the file. With ZeRO 3, or
// with a base in blocks of 4 bits, the store is as for `gradients`.
// gradients: as in a training run, f32 masters and 16-bit copies, sharded over data ranks by spread.options.zero.
enum class OpenFor : uint8_t { running, gradients };

// Loads a model folder: reads FOLDER/config.json and all weights into memory. f64 is computed by backend "ref" only. A
// fault of a file or a tensor is a UserError. Weights that need more memory than the machine has are a UserError too.
// All ranks call it together. The caller checks that the model fits the mesh (parallel/fit.h). adapter: a PEFT folder;
// its matrices are added to the model (model/adapters.h), and with OpenFor::gradients the weights of the base are
// frozen. base: the form in which the base's weights are stored (lora.base); empty: the default form. Used for a
// running model without an adapter, too. With OpenFor::gradients and no adapter it is a UserError.
LoadedModel load_model(const std::string& folder, DType compute, Backend backend, OpenFor use = OpenFor::running,
                       Bf16Products products = Bf16Products::widen, const InferenceLayout& spread = {},
                       const std::string& adapter = "", std::optional<BaseStorage> base = {});

// Loads an adapter (PEFT folder) on top of a model that is already loaded. base must be loaded for running, without an
// adapter. The new model holds the weights of the adapter and reads all other weights from `base`, which must outlive
// it and must not be moved. Its results are equal to load_model() with this adapter. All ranks call it together.
LoadedModel load_on_base(const LoadedModel& base, const std::string& adapter);

// Makes a model with random weights in memory, for measurements of speed. config: CONFIG.json or a folder that has one.
LoadedModel load_random_model(const std::string& config, DType compute, Backend backend,
                              Bf16Products products = Bf16Products::widen);

}  // namespace ravine

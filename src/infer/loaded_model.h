// A model folder opened for running: declarations, weights and the kernels that read them. trace and generate begin here.
// Of several ranks each reads and holds its part.
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

// How a model is spread over ranks.
struct InferenceLayout {
  std::shared_ptr<const Ranks> ranks = std::make_shared<Ranks>();  // alone
  ParallelOptions options;                                         // stage_layers, virtual, zero, zero_threshold, sequence
  int64_t ranks_per_host = 1;                                      // they share its memory
};

struct LoadedModel {
  std::string folder, adapter;  // adapter: a PEFT folder whose weights are there too; "": none
  std::unique_ptr<Model> model;
  Kernels kernels;
  Types types;
  InferenceLayout spread;
  std::vector<BlockRange> parts;  // of the pipeline (parallel/stage.h); empty: one, of everything
  std::unique_ptr<WeightSource> store;
  std::vector<std::string> stored_names;  // of model->files().tensors, as the folder spells them; empty for random weights
  // The store, where it can hold gradients (OpenFor::gradients), is divided over data ranks (ZeRO 3), or keeps blocks of 4 bits.
  FlatStore* trainable = nullptr;

  // Of load_beside: the model beside which it is loaded. beside: the adapters, where they and nothing else tell the two models
  // apart, layer by layer for each row: then one batch of the base's model may run rows of both (infer/prompt_models.h).
  const LoadedModel* base = nullptr;
  const AdapterSet* beside = nullptr;

  const Ranks& ranks() const { return *spread.ranks; }
  std::vector<int> stages() const { return stages_of_units(*model, parts, ranks().mesh().pipeline); }  // by Unit::index
  bool last_stage() const { return ranks().last_stage(); }                                             // where logits come out

  // For a Ctx that runs the model forward: no stash, no observers. The Ctx refers to this model, which must stay where it is.
  Ctx::Setup setup(Arena& arena) const;
};

// running: every weight is held once, in the type that kernels read, rounded from whatever the file has; with ZeRO 3, or a base
// in blocks of 4 bits, as for gradients. gradients: as a training run holds them, f32 masters and 16-bit copies, divided over data ranks as
// spread.options.zero says.
enum class OpenFor : uint8_t { running, gradients };

// Reads FOLDER/config.json and the weights beside it; blocks until they are in memory. f64 is computed by "ref" only.
// UserErrors name what is wrong with a file, a tensor, or say how much memory the weights would need. All ranks call it; that
// the model fits their mesh is the caller's to see to (parallel/fit.h). With an adapter of PEFT its matrices stand beside the
// weights (model/adapters.h), and for gradients the weights are frozen; `base` says how these are kept (lora.base), of a model that
// runs with or without an adapter; for gradients without one it is a UserError.
LoadedModel load_model(const std::string& folder, DType compute, Backend backend, OpenFor use = OpenFor::running,
                       Bf16Products products = Bf16Products::widen, const InferenceLayout& spread = {},
                       const std::string& adapter = "", std::optional<BaseStorage> base = {});

// `base`, open for running and without an adapter, with that of a PEFT folder beside its weights: the new one holds what
// the adapter brings and reads everything else where the base has it, which must outlive it and stay where it is. It answers as
// load_model with that adapter would. All ranks call it.
LoadedModel load_beside(const LoadedModel& base, const std::string& adapter);

// As above for speed only: CONFIG.json or a folder that holds one; weights are drawn at random, for running.
LoadedModel load_random_model(const std::string& config, DType compute, Backend backend,
                              Bf16Products products = Bf16Products::widen);

}  // namespace ravine

// Reads and writes checkpoints of `ravine train` in conversions.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "io/convert/hf_folder.h"

namespace ravine {

// Reads the weights, or the states that `kind` selects, of a Ravine checkpoint. `path` is a run, its folder
// checkpoints, or one step_N of it, written by any number of ranks. If `config` is null, the model is the config in the
// checkpoint, else the config.json in the run's folder, else the model in its config.yaml. Parameters that were not
// trained have no moments.
Weights read_ravine_checkpoint(const std::string& path, const Json& config, const std::string& config_where,
                               StateKind kind = StateKind::weights);

// Returns the checkpoint folder step_N at `path` (a run, its folder checkpoints, or step_N); the newest if there are
// several. Warnings are appended to `notes`.
std::string ravine_checkpoint_of(const std::string& path, std::vector<std::string>& notes);
// Returns the options of the run whose folder contains the checkpoint `folder`; nothing if the run has none, or
// unreadable options, which are noted in `notes`.
std::optional<Config> options_of_checkpoint(const std::string& folder, std::vector<std::string>& notes);

// Returns the tensors of the checkpoint that write_ravine writes: the state after weights.position.step steps, as f32
// weights and Adam's moments, with zeros for tensors that `first` and `second` lack. For 3 steps write_ravine writes
//   DIR/config.json, tokenizer          model.config=DIR/config.json model.tokenizer=DIR
//   DIR/checkpoints/step_000003/        train.output=DIR resumes from it, on any number of ranks
//   DIR/checkpoints/latest
std::vector<NamedElements> plan_ravine(const Weights& weights, const Weights& first, const Weights& second, const Geometry& g);
void write_ravine(TargetFolder& folder, const std::vector<NamedElements>& tensors, const Weights& weights,
                  const std::function<void(int64_t)>& progress);

}  // namespace ravine

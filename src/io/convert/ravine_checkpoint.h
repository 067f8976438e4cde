// Checkpoints of `ravine train` as source and target of conversions.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "io/convert/hf_folder.h"

namespace ravine {

// `path`: a run, its folder checkpoints, or one step_N of it, written by however many ranks. Without `config` the config.json
// of the run's folder, else its config.yaml, says which model it is. Parameters that were not trained have no moments.
Weights read_ravine_checkpoint(const std::string& path, const Json& config, const std::string& config_where,
                               StateKind kind = StateKind::weights);

// The folder step_N that `path` means, the newest of several; what is to be said of it goes to `notes`.
std::string ravine_checkpoint_of(const std::string& path, std::vector<std::string>& notes);
// The options of the run that a folder step_N lies in; nothing where it has none, or none that can be read, which is noted.
std::optional<Config> options_of_checkpoint(const std::string& folder, std::vector<std::string>& notes);

// The state of a run that has done position.step steps: f32 weights and Adam's moments, zeros where `first` and `second` have
// none.
//   DIR/config.json, tokenizer          model.config=DIR/config.json model.tokenizer=DIR
//   DIR/checkpoints/step_000003/        train.output=DIR goes on from it, on any number of ranks
//   DIR/checkpoints/latest
std::vector<NamedElements> plan_ravine(const Weights& weights, const Weights& first, const Weights& second, const Geometry& g);
void write_ravine(TargetFolder& folder, const std::vector<NamedElements>& tensors, const Weights& weights,
                  const std::function<void(int64_t)>& progress);

}  // namespace ravine

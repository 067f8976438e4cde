// The results that run_clm.py of Transformers writes at the end of a run, by its names. train_results.json and
// eval_results.json are in the folder of the run; all_results.json has the keys of both. The log has a table of each.
// total_flos is not written.
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "base/log.h"
#include "train/hooks.h"

namespace ravine {

// Returns the results of a validation by Transformers' names: eval_loss, perplexity, eval_samples and the speed.
Json evaluation_figures(const ValidationResult& result);

// Logs results and writes them to files in `folder`: replaces SPLIT_results.json, and sets the keys of `figures` in
// all_results.json. split: train or eval.
// A UserError if all_results.json is not a plain file or not a JSON object. In a folder that no run made, an existing
// file is first renamed to NAME.before, unless NAME.before exists.
void write_results(const std::string& folder, const std::string& split, const Json& figures, Log& log);

// Returns a hook that writes train_results.json, eval_results.json and all_results.json at the end of a run that was
// not stopped. The results cover the steps of this process and a validation of the model that is left:
// the best one or the last one. tokens: true adds the tokens per second of a rank.
std::unique_ptr<Hook> trainer_results_hook(bool tokens);

}  // namespace ravine

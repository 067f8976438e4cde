// The figures that run_clm.py of Transformers leaves of a run, by its names: train_results.json and eval_results.json in the folder
// of the run, both together in all_results.json, and a table of each in the log. total_flos is not among them.
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "base/log.h"
#include "train/hooks.h"

namespace ravine {

// eval_loss, perplexity, eval_samples and the speed.
Json evaluation_figures(const ValidationResult& result);

// Shows them, replaces SPLIT_results.json, and the keys that they have in all_results.json; one that is no JSON object in a
// plain file is a UserError. Files that lie in a folder that no run made stay as NAME.before, once. `split`: train or eval.
void write_results(const std::string& folder, const std::string& split, const Json& figures, Log& log);

// At the end of a run that was not stopped: of the steps that this process made, and of the last validation, which is that of the
// best model where the run ends with it.
std::unique_ptr<Hook> trainer_results_hook();

}  // namespace ravine

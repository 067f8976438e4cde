// The loss of a model on its validation data, without training.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "apps/rank_job.h"
#include "apps/training.h"
#include "base/error.h"
#include "files/fd.h"
#include "runs/run_state.h"
#include "styles/trainer_results.h"
#include "train/open_run.h"
#include "train/reference.h"
#include "train/validation.h"

namespace ravine {

int run_evaluation(Config& config, Backend backend, const TrainerOutputs& outputs) {
  const bool trainer_results = outputs.results;
  const std::string output = config.train.output;
  if (trainer_results) create_folders(output);
  // No run is started: the content of train.output does not matter.
  config.train.output = (std::filesystem::temp_directory_path() / "ravine-evaluation-writes-nothing").string();
  RankJob job(config.parallel, config.train.threads);
  Log log;
  return job.run([&](World* world) {
    OpenedRun run(config, log, world);
    open_run(run, backend);
    run.engine->allocate();
    begin_weights(*run.engine, run.config());
    run.log.line("{}", trainer_results ? "*** Evaluate ***" : ".........Starting Evaluate Model..........");
    const std::optional<ValidationResult> result =
        validation_result(*run.engine, run.data.valid.get(), run.config().train, ReferenceLogProbs(), outputs.valid_rows);
    require(result.has_value(), "evaluation: data.valid names data");
    if (result->labels == 0)
      throw UserError("no labels in the validation data", run.config().data.valid[0].path, "a loss is the mean over labels",
                      "name data with labels other than padding");
    const double perplexity = std::exp(result->loss);
    if (!trainer_results) {
      run.log.line("PerplexityMetric = {{'PerplexityMetric': {{'loss': {}, 'PPL': {}}}}}", result->loss, perplexity);
      run.log.line(".........Evaluate Over!.............");
    }
    if (!run.ranks.first()) return;
    if (trainer_results) write_results(output, "eval", evaluation_figures(*result), run.log);
    const Json line = {{"loss", result->loss}, {"perplexity", perplexity}, {"labels", result->labels}};
    std::fputs((line.dump() + "\n").c_str(), stdout);
    std::fflush(stdout);
  });
}

}  // namespace ravine

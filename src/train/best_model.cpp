#include "train/best_model.h"

#include <filesystem>

#include "files/compressed.h"
#include "io/run_files.h"
#include "runs/opened_run.h"
#include "runs/run_state.h"
#include "runs/saves.h"

namespace ravine {

std::optional<BestStep> best_step(const std::string& metrics, const Config& c, int64_t step, const BestModel& best) {
  std::optional<BestStep> out;
  std::error_code error;
  if (c.train.valid_every == 0 || c.checkpoint.every == 0 || !std::filesystem::is_regular_file(metrics, error)) return out;
  LineReader lines(metrics, kMetricsLine);
  while (const auto line = lines.next()) {
    const Json row = Json::parse(*line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) continue;
    if (!row.contains("valid_loss") || !row["valid_loss"].is_number()) continue;
    const BestStep one{row["step"].get<int64_t>(), row["valid_loss"].get<double>()};
    if (one.step > step || one.step % c.train.valid_every != 0 || one.step % c.checkpoint.every != 0) continue;
    if (!out || (best.greater ? one.loss > out->loss : one.loss < out->loss)) out = one;
  }
  return out;
}

bool load_best(const OpenedRun& run, const BestModel& best, int64_t done) {
  const Config& c = run.config();
  const std::optional<BestStep> found =
      run.ranks.first() ? best_step(run.path("metrics.jsonl"), c, done, best) : std::optional<BestStep>{};
  const int64_t step = gather_integers(run.ranks.all(), found ? found->step : 0)[0];
  if (step == 0) {
    run.log.warn("no step has both a validation and a checkpoint: the model is that of the last step");
    return false;
  }
  std::string folder = checkpoints_of(c) + "/" + checkpoint_name(step);
  if (run.files) {
    folder = run.files->pattern();
    folder = run.files->folder(c) + "/" + folder.replace(folder.find('*'), 1, std::to_string(step));
  }
  if (found) run.log.line("best     Loading best model from {} (score: {}).", folder, found->loss);
  if (step == done) return false;
  const auto reader = run.files ? std::make_unique<CheckpointReader>(run.files->open(run, folder))
                                : std::make_unique<CheckpointReader>(folder, false);
  restore(*run.engine, *reader, c.model);
  return true;
}

}  // namespace ravine

#include "train/validation.h"

#include <numeric>

#include "base/clock.h"
#include "step/preference.h"

namespace ravine {

std::optional<ValidationResult> validation_result(StepEngine& engine, const Dataset* data, const TrainOptions& options,
                                                  const ReferenceLogProbs& reference) {
  if (!data) return std::nullopt;
  const double began = seconds_now();
  StepSums sums;
  int64_t count = 0, rows = options.micro_batch, total = ceil_div(data->sample_count(), rows);
  if (options.valid_batches > 0) total = std::min(total, options.valid_batches);
  // Data ranks take alternate micro batches, in equal numbers: a forward pass may gather blocks from all ranks.
  const Group& turns = engine.ranks().along(Axis::data);
  for (int64_t round = 0; round < ceil_div(total, turns.size()); ++round) {
    int64_t b = round * turns.size() + turns.rank(), real = std::min(b, total - 1);
    int64_t n = std::min(rows, data->sample_count() - real * rows);
    MicroBatch m = make_micro_batch(*data, real * rows, n);
    reference.fill(m);
    auto [mine, valid] = engine.evaluate(m);
    if (b >= total) continue;
    for (StepSum side : kStepSums) sums.add(0, side, engine.ctx().step_sums().total(side));
    count += valid;
  }
  std::vector<int64_t> counts = gather_integers(turns, count);
  count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  auto mean = [&](StepSum side) {
    const double all = sum(engine.ranks().all(), sums.total(side)).value();
    return count > 0 ? all / static_cast<double>(count) : 0.0;
  };
  ValidationResult result{.loss = mean(StepSum::loss), .labels = count, .preferences = {}};
  result.batches = total;
  result.samples = std::min(total * rows, data->sample_count());
  result.seconds = seconds_now() - began;
  if (count > 0 && options.objective == TrainObjective::dpo) result.preferences = preference_metrics(mean);
  return result;
}

}  // namespace ravine

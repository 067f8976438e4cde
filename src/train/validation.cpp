#include "train/validation.h"

#include <numeric>

#include "base/clock.h"
#include "step/preference.h"

namespace ravine {

std::optional<ValidationResult> validation_result(StepEngine& engine, const Dataset* data, const TrainOptions& options,
                                                  const ReferenceLogProbs& reference, int64_t rows) {
  if (!data) return std::nullopt;
  const double began = seconds_now();
  StepSums sums;
  const int64_t micro = options.micro_batch, all = rows > 0 ? std::min(rows, data->sample_count()) : data->sample_count();
  int64_t count = 0, total = ceil_div(all, micro);
  if (rows == 0 && options.valid_batches > 0) total = std::min(total, options.valid_batches);
  // Data ranks take alternate micro batches, in equal numbers: a forward pass may gather blocks from all ranks.
  const Group& turns = engine.ranks().along(Axis::data);
  for (int64_t round = 0; round < ceil_div(total, turns.size()); ++round) {
    int64_t b = round * turns.size() + turns.rank(), real = std::min(b, total - 1);
    int64_t n = std::min(micro, all - real * micro);
    MicroBatch m = make_micro_batch(*data, real * micro, n);
    reference.fill(m);
    auto [mine, valid] = engine.evaluate(m);
    if (b >= total) continue;
    for (StepSum side : kStepSums) sums.add(0, side, engine.ctx().step_sums().total(side));
    count += valid;
  }
  std::vector<int64_t> counts = gather_integers(turns, count);
  count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  auto mean = [&](StepSum side) {
    const double whole = sum(engine.ranks().all(), sums.total(side)).value();
    return count > 0 ? whole / static_cast<double>(count) : 0.0;
  };
  ValidationResult result{.loss = mean(StepSum::loss), .labels = count, .preferences = {}};
  result.batches = total;
  result.samples = std::min(total * micro, all);
  result.seconds = seconds_now() - began;
  if (count > 0 && options.objective == TrainObjective::dpo) result.preferences = preference_metrics(mean);
  return result;
}

}  // namespace ravine

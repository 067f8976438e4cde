#include "parallel/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace ravine {

std::vector<PipelineTask> pipeline_schedule(int stages, int chunks, int micros, int stage) {
  require(stages >= 1 && chunks >= 1 && micros >= 1 && stage >= 0 && stage < stages,
          "schedule: stage {} of {}, {} chunks, {} micro batches", stage, stages, chunks, micros);
  require(chunks == 1 || micros % stages == 0, "schedule: interleaving needs micro batches in multiples of {} stages, got {}",
          stages, micros);
  int total = micros * chunks, round = stages * chunks;
  // The k-th forward or backward pass: `stages` micro batches run through a chunk, then the same ones through the next
  // chunk.
  auto task = [&](int k, bool backward) {
    if (chunks == 1) return PipelineTask{backward, 0, k};
    int chunk = k % round / stages;
    return PipelineTask{backward, backward ? chunks - 1 - chunk : chunk, k / round * stages + k % stages};
  };
  int warm_up = chunks == 1 ? stages - stage - 1 : 2 * (stages - stage - 1) + (chunks - 1) * stages;
  warm_up = std::min(warm_up, total);
  std::vector<PipelineTask> out;
  for (int k = 0; k < warm_up; ++k) out.push_back(task(k, false));
  for (int k = warm_up; k < total; ++k) {
    out.push_back(task(k, false));
    out.push_back(task(k - warm_up, true));
  }
  for (int k = total - warm_up; k < total; ++k) out.push_back(task(k, true));
  return out;
}

PipelineTimes pipeline_times(int stages, int chunks, int micros, const std::vector<double>& forward,
                             const std::vector<double>& backward) {
  int parts = stages * chunks;
  require(static_cast<int>(forward.size()) == parts && static_cast<int>(backward.size()) == parts,
          "schedule: costs of {} and {} parts instead of {}", forward.size(), backward.size(), parts);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  auto at = [&](int part, int micro) {
    return static_cast<size_t>(part) * static_cast<size_t>(micros) + static_cast<size_t>(micro);
  };
  std::vector<double> forward_end(at(parts, 0), kNever), backward_end(at(parts, 0), kNever);
  std::vector<std::vector<PipelineTask>> schedules;
  for (int s = 0; s < stages; ++s) schedules.push_back(pipeline_schedule(stages, chunks, micros, s));
  PipelineTimes times;
  times.stages.resize(static_cast<size_t>(stages));
  double busy = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < schedules.size(); ++s) {
      auto& done = times.stages[s];
      while (done.size() < schedules[s].size()) {
        PipelineTask t = schedules[s][done.size()];
        int part = t.chunk * stages + static_cast<int>(s);
        double ready = 0;
        if (t.backward)
          ready = part + 1 < parts ? backward_end[at(part + 1, t.micro)] : forward_end[at(part, t.micro)];
        else if (part > 0)
          ready = forward_end[at(part - 1, t.micro)];
        if (ready == kNever) break;
        double begin = std::max(ready, done.empty() ? 0.0 : done.back().end);
        double cost = (t.backward ? backward : forward)[static_cast<size_t>(part)];
        (t.backward ? backward_end : forward_end)[at(part, t.micro)] = begin + cost;
        done.push_back({t, begin, begin + cost});
        busy += cost;
        times.length = std::max(times.length, begin + cost);
        moved = true;
      }
    }
  }
  for (size_t s = 0; s < schedules.size(); ++s)
    require(times.stages[s].size() == schedules[s].size(), "schedule: stage {} waits for ever after {} tasks", s,
            times.stages[s].size());
  times.bubble = 1 - busy / (times.length * stages);
  return times;
}

int activations_held(const std::vector<PipelineTask>& schedule) {
  int held = 0, most = 0;
  for (const PipelineTask& t : schedule) most = std::max(most, held += t.backward ? -1 : 1);
  return most;
}

std::vector<int> split_layers(const std::vector<double>& cost, int parts) {
  int n = static_cast<int>(cost.size());
  require(parts >= 1 && n >= parts, "split: {} layers for {} parts", n, parts);
  // best[p][i]: the least largest sum if the layers from i on are split into p parts.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> sums(static_cast<size_t>(n) + 1, 0);
  for (int i = 0; i < n; ++i) sums[static_cast<size_t>(i) + 1] = sums[static_cast<size_t>(i)] + cost[static_cast<size_t>(i)];
  auto sum = [&](int a, int b) { return sums[static_cast<size_t>(b)] - sums[static_cast<size_t>(a)]; };
  std::vector<std::vector<double>> best(static_cast<size_t>(parts) + 1,
                                        std::vector<double>(static_cast<size_t>(n) + 1, kNever));
  best[0][static_cast<size_t>(n)] = 0;
  for (int p = 1; p <= parts; ++p)
    for (int i = 0; i <= n - p; ++i)
      for (int j = i + 1; j <= n - p + 1; ++j) {
        double v = std::max(sum(i, j), best[static_cast<size_t>(p) - 1][static_cast<size_t>(j)]);
        best[static_cast<size_t>(p)][static_cast<size_t>(i)] =
            std::min(best[static_cast<size_t>(p)][static_cast<size_t>(i)], v);
      }
  double limit = best[static_cast<size_t>(parts)][0];
  std::vector<int> out;
  for (int p = parts, i = 0; p > 0; --p) {
    int j = n - p + 1;  // as many layers as the limit allows: earlier parts take more
    while (j > i + 1 && (sum(i, j) > limit || best[static_cast<size_t>(p) - 1][static_cast<size_t>(j)] > limit)) --j;
    out.push_back(j - i);
    i = j;
  }
  return out;
}

}  // namespace ravine

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
  // The k-th forward or backward: `stages` micro batches through a chunk, then the same through the next.
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

namespace {
std::string label(const PipelineTask& t, bool chunks) {
  return fmt::format("{}{}{}", t.backward ? "B" : "F", t.micro,
                     chunks ? std::string(1, static_cast<char>('a' + t.chunk % 26)) : "");
}

bool has_chunks(const PipelineTimes& t) {
  for (const auto& stage : t.stages)
    for (const auto& span : stage)
      if (span.task.chunk > 0) return true;
  return false;
}
}  // namespace

std::string pipeline_chart(const PipelineTimes& times) {
  bool chunks = has_chunks(times);
  double shortest = times.length;
  size_t widest = 1;
  for (const auto& stage : times.stages)
    for (const auto& span : stage)
      shortest = std::min(shortest, span.end - span.begin), widest = std::max(widest, label(span.task, chunks).size());
  double columns = static_cast<double>(widest + 1) / shortest;  // per unit of time
  std::string out;
  for (size_t s = 0; s < times.stages.size(); ++s) {
    std::string line = fmt::format("stage {:<3}|", s);
    size_t edge = line.size();
    for (const auto& span : times.stages[s]) {
      size_t begin = edge + static_cast<size_t>(std::lround(span.begin * columns)),
             end = edge + static_cast<size_t>(std::lround(span.end * columns));
      line.resize(std::max(line.size(), begin), '.');
      std::string text = label(span.task, chunks);
      text.resize(std::max<size_t>(end - begin, text.size() + 1), span.task.backward ? '=' : '-');
      text.back() = ' ';
      line += text;
    }
    line.resize(std::max(line.size(), edge + static_cast<size_t>(std::lround(times.length * columns))), '.');
    out += line + "|\n";
  }
  return out + fmt::format("bubble {:.1f} %\n", 100 * times.bubble);
}

namespace {

constexpr double kStageRow = 26;

}  // namespace

double pipeline_svg_height(const PipelineTimes& times) { return kStageRow * static_cast<double>(times.stages.size()) + 40; }

std::string pipeline_svg(const PipelineTimes& times) {
  constexpr double kRow = kStageRow, kLeft = 70, kWidth = 1200;
  bool chunks = has_chunks(times);
  double scale = kWidth / times.length, height = pipeline_svg_height(times);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kLeft + kWidth + 10, height);
  for (size_t s = 0; s < times.stages.size(); ++s) {
    double y = 8 + kRow * static_cast<double>(s);
    out += fmt::format("<text x=\"8\" y=\"{:.1f}\">stage {}</text>\n", y + 16, s);
    for (const auto& span : times.stages[s]) {
      int shade = 40 + 12 * (span.task.chunk % 4);
      double x = kLeft + span.begin * scale, width = (span.end - span.begin) * scale;
      out += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"hsl({},60%,{}%)\" stroke=\"white\"/>", x,
          y, width, kRow - 4, span.task.backward ? 140 : 215, shade);
      out += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"white\">{}</text>\n", x + width / 2,
                         y + 15, label(span.task, chunks));
    }
  }
  return out +
         fmt::format("<text x=\"{}\" y=\"{:.1f}\">bubble {:.1f} %</text>\n</svg>\n", kLeft, height - 10, 100 * times.bubble);
}

std::vector<int> split_layers(const std::vector<double>& cost, int parts) {
  int n = static_cast<int>(cost.size());
  require(parts >= 1 && n >= parts, "split: {} layers for {} parts", n, parts);
  // best[p][i]: least largest sum of the layers from i on in p parts.
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
    int j = n - p + 1;  // as many as keep the limit, so that earlier parts take more
    while (j > i + 1 && (sum(i, j) > limit || best[static_cast<size_t>(p) - 1][static_cast<size_t>(j)] > limit)) --j;
    out.push_back(j - i);
    i = j;
  }
  return out;
}

}  // namespace ravine

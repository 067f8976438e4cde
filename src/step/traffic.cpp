#include "step/traffic.h"

#include <algorithm>
#include <numeric>

namespace ravine {

TrafficMeter::Counts TrafficMeter::counts(const Ranks& ranks) {
  Counts now;
  auto add = [&](size_t kind, const Group& g) {
    now[kind].bytes += g.traffic().bytes;
    now[kind].wait_seconds += g.traffic().wait_seconds;
  };
  add(0, ranks.along(Axis::data));
  add(1, ranks.along(Axis::tensor));
  add(2, ranks.along(Axis::pipeline));
  add(2, ranks.back());
  add(3, ranks.along(Axis::expert));
  if (ranks.mesh().expert > 1) add(0, ranks.along(Axis::expert_data));
  add(4, ranks.all());
  return now;
}

void TrafficMeter::begin(const Ranks& ranks) {
  if (ranks.size() > 1) before_ = counts(ranks);
}

StepTraffic TrafficMeter::end(const Ranks& ranks, double seconds) {
  StepTraffic out;
  if (ranks.size() == 1) return out;
  const Counts now = counts(ranks);
  struct Wire {
    std::array<double, kKinds> bytes, seconds;
    double step;  // the step time of this rank: ranks do not start and end a step at the same moment
  } mine;
  mine.step = seconds;
  for (size_t k = 0; k < kKinds; ++k) {
    mine.bytes[k] = static_cast<double>(now[k].bytes - before_[k].bytes);
    mine.seconds[k] = now[k].wait_seconds - before_[k].wait_seconds;
    out.sent_mb += 1e-6 * mine.bytes[k];
  }
  std::vector<Wire> all(static_cast<size_t>(ranks.size()));
  ranks.all().all_gather(&mine, all.data(), sizeof mine).wait();
  const Mesh& mesh = ranks.mesh();
  const char* names[] = {"data", "tensor", "pipeline", "expert", "all"};
  bool there[] = {mesh.data > 1, mesh.tensor > 1, mesh.pipeline > 1, mesh.expert > 1, true};
  for (size_t k = 0; k < kKinds; ++k) {
    if (!there[k]) continue;
    StepTraffic::Part part{names[k], 0, 0};
    for (const Wire& w : all) {
      part.mb = std::max(part.mb, 1e-6 * w.bytes[k]);
      part.seconds += w.seconds[k] / static_cast<double>(all.size());
    }
    out.parts.push_back(part);
  }
  std::vector<double> waits;
  for (const Wire& w : all) waits.push_back(std::accumulate(w.seconds.begin(), w.seconds.end(), 0.0) / w.step);
  auto [least, most] = std::minmax_element(waits.begin(), waits.end());
  out.wait = *most;
  out.wait_least = *least;
  out.slowest = static_cast<int>(least - waits.begin());
  if (ranks.mesh().pipeline > 1) {
    out.bubble = 0;
    for (const Wire& w : all) out.bubble += w.seconds[2] / w.step / static_cast<double>(all.size());
  }
  return out;
}

}  // namespace ravine

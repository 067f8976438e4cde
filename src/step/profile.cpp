#include "step/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/json.h"

namespace ravine {
void Profile::begin_step() {
  rows_.clear();
  events_.clear();
  step_start_ = seconds_now();
}

void Profile::before(const CallInfo&) { call_start_ = seconds_now(); }

void Profile::after(const CallInfo& call) {
  double seconds = seconds_now() - call_start_;
  Row& row = rows_[fmt::format("{} ({})", call.op, name(call.phase))];
  row.calls += 1;
  row.seconds += seconds;
  row.flops += call.flops;
  row.bytes += call.bytes;
  if (timeline_) events_.push_back({call.op, std::string(call.path), call_start_ - step_start_, seconds});
}

std::string Profile::table(double flops, double bandwidth) const {
  double total = seconds_now() - step_start_, inside = 0;
  std::vector<std::pair<std::string, Row>> rows(rows_.begin(), rows_.end());
  std::sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.second.seconds > b.second.seconds; });
  std::string out =
      fmt::format("{:<34} {:>6} {:>10} {:>6} {:>9} {:>9} {:>9}\n", "op", "calls", "ms", "share", "GFLOP/s", "GB/s", "roofline");
  for (auto& [op, r] : rows) {
    inside += r.seconds;
    double least = std::max(r.flops / flops, r.bytes / bandwidth);
    out += fmt::format("{:<34} {:>6} {:>10.2f} {:>5.1f}% {:>9.1f} {:>9.1f} {:>8.2f}\n", op, r.calls, 1000 * r.seconds,
                       100 * r.seconds / total, r.flops / r.seconds * 1e-9, r.bytes / r.seconds * 1e-9, least / r.seconds);
  }
  out += fmt::format("{:<34} {:>6} {:>10.2f} {:>5.1f}%\n", "between kernels", "", 1000 * (total - inside),
                     100 * (total - inside) / total);
  return out;
}

std::string Profile::timeline_json() const {
  Json all = Json::array();
  for (const Event& e : events_)
    all.push_back({{"name", e.name},
                   {"ph", "X"},
                   {"ts", e.start * 1e6},
                   {"dur", e.seconds * 1e6},
                   {"pid", 0},
                   {"tid", 0},
                   {"args", {{"path", e.path}}}});
  return Json{{"otherData", {{"program", "ravine bench"}}}, {"traceEvents", all}}.dump();
}

}  // namespace ravine

#include "checks/frozen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/error.h"

namespace ravine {
namespace {

constexpr double kFar = 10;  // a step stands out if it is so many median differences away

double median_of(std::vector<double> x) {
  if (x.empty()) return 0;
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

bool FrozenVerdict::agrees() const {
  return std::none_of(out.begin(), out.end(), [](const Step& s) { return s.beyond; });
}

FrozenVerdict judge_frozen(const TrainingCurve& ours, const TrainingCurve& theirs, const FrozenLimits& limits) {
  FrozenVerdict v;
  std::vector<double> losses, norms;
  std::vector<FrozenVerdict::Step> all;
  for (const auto& [step, loss] : ours.loss) {
    const auto other = theirs.loss.find(step);
    if (other == theirs.loss.end()) continue;
    FrozenVerdict::Step s{.step = step, .loss = same_number(loss, other->second) ? 0 : loss - other->second};
    const auto a = ours.norm.find(step), b = theirs.norm.find(step);
    if (a != ours.norm.end() && b != theirs.norm.end()) {
      s.norm = same_number(a->second, b->second) ? 0 : a->second - b->second, ++v.with_norm;
      norms.push_back(std::abs(s.norm));
    }
    losses.push_back(std::abs(s.loss)), all.push_back(s);
  }
  if (all.empty())
    throw UserError("no step in common", theirs.name,
                    fmt::format("the steps of both count from 1; here are {}", ours.loss.size()),
                    "log every step, and train the same steps on both sides");
  v.steps = static_cast<int64_t>(all.size());
  const double loss_room = ours.loss_resolution + theirs.loss_resolution,
               norm_room = ours.norm_resolution + theirs.norm_resolution;
  const double loss_far = kFar * std::max(median_of(losses), loss_room),
               norm_far = kFar * std::max(median_of(norms), norm_room);
  for (FrozenVerdict::Step& s : all) {
    v.loss_mean += s.loss / static_cast<double>(v.steps),
        v.norm_mean += v.with_norm > 0 ? s.norm / static_cast<double>(v.with_norm) : 0;
    v.loss_most = std::max(v.loss_most, std::abs(s.loss)), v.norm_most = std::max(v.norm_most, std::abs(s.norm));
    s.beyond = !(std::abs(s.loss) <= limits.loss + loss_room && std::abs(s.norm) <= limits.norm + norm_room);
    const bool far = all.size() >= 8 && ((loss_far > 0 && std::abs(s.loss) > std::max(loss_far, 0.1 * limits.loss)) ||
                                         (norm_far > 0 && std::abs(s.norm) > std::max(norm_far, 0.1 * limits.norm)));
    if (s.beyond || far) v.out.push_back(s);
  }
  const auto beyond = std::count_if(v.out.begin(), v.out.end(), [](const auto& s) { return s.beyond; });
  v.all_beyond = 2 * beyond > v.steps;
  std::stable_sort(v.out.begin(), v.out.end(), [&](const auto& a, const auto& b) {
    const auto size = [&](const auto& s) {
      const double x = std::abs(s.loss) / limits.loss + std::abs(s.norm) / limits.norm;
      return std::isnan(x) ? HUGE_VAL : x;
    };
    return size(a) > size(b);
  });
  return v;
}

std::string FrozenVerdict::text(const FrozenLimits& limits) const {
  const std::string norms = with_norm > 0 ? fmt::format(", global norms {:.3g} (limit {:g})", norm_most, limits.norm)
                                          : ", and a side has no global norms";
  std::string finding = fmt::format("{} without an update: losses are at most {:.3g} apart (limit {:g}){}.",
                                    counted(steps, "step"), loss_most, limits.loss, norms);
  if (out.empty())
    return finding + " No step stands out: the forward pass agrees" + (with_norm > 0 ? ", and the backward pass." : ".");
  if (all_beyond)
    return finding +
           fmt::format(
               " Most steps are beyond a limit, by {:+.3g} on average in the loss: no batch is at fault, but a part of the "
               "model or its weights. Use ravine check step.",
               loss_mean);
  std::string list;
  for (size_t i = 0; i < std::min<size_t>(out.size(), 5); ++i)
    list += fmt::format("{}{} (loss {:+.3g}{})", i > 0 ? ", " : "", out[i].step, out[i].loss,
                        with_norm > 0 ? fmt::format(", norm {:+.3g}", out[i].norm) : "");
  return finding +
         fmt::format(
             " {}: step {}{}. Look at that step's batch: ravine data show --config CONFIG --step {}, and dump it on both sides.",
             agrees() ? "Within the limits, but far from the others" : "Beyond a limit", list,
             out.size() > 5 ? fmt::format(" and {} more", out.size() - 5) : "", out.front().step);
}

Json FrozenVerdict::json(const FrozenLimits& limits) const {
  Json list = Json::array();
  for (const Step& s : out) list.push_back({{"step", s.step}, {"loss", s.loss}, {"norm", s.norm}, {"beyond", s.beyond}});
  return {{"agrees", agrees()},
          {"steps", steps},
          {"loss", {{"mean", loss_mean}, {"most", loss_most}, {"limit", limits.loss}}},
          {"norm", with_norm > 0 ? Json{{"mean", norm_mean}, {"most", norm_most}, {"limit", limits.norm}} : Json()},
          {"stand_out", list},
          {"verdict", text(limits)}};
}

}  // namespace ravine

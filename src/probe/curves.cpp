#include "probe/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/error.h"

namespace ravine {
namespace {

constexpr int64_t kEarlySteps = 50;
constexpr size_t kLeastLate = 30;

// The values of two curves at their common steps.
struct Common {
  std::vector<int64_t> step;
  std::vector<double> a, b;
};

Common common_steps(const std::map<int64_t, double>& a, const std::map<int64_t, double>& b) {
  Common out;
  for (const auto& [step, value] : a)
    if (const auto other = b.find(step); other != b.end())
      out.step.push_back(step), out.a.push_back(value), out.b.push_back(other->second);
  return out;
}

// Returns the unit roundoff: half a unit in the last place of 1.
double unit_roundoff(const std::string& compute) {
  return compute == "f64" ? 0x1p-53 : compute == "f32" ? 0x1p-24 : compute == "f16" ? 0x1p-11 : 0x1p-8;
}

std::string coarser(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a + b;
  return unit_roundoff(a) >= unit_roundoff(b) ? a : b;
}

double envelope(double unit, int64_t step) {
  const double begin = std::min(8 * unit, 0.005);
  return std::min(begin * std::exp2(static_cast<double>(step - 1) / 10), 0.01);
}

// Returns the 97.5 % quantile of Student's distribution with n degrees of freedom, by an expansion around the normal
// distribution (Abramowitz and Stegun 26.7.5, to the second order). The error is below 4 % for n >= 3.
double student(double n) {
  constexpr double z = 1.959964;
  return z + (z * z * z + z) / (4 * n) + (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * n * n);
}

std::vector<double> moving_mean(std::span<const double> x, size_t width) {
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t begin = i < width / 2 ? 0 : i - width / 2, end = std::min(x.size(), begin + width);
    out[i] =
        std::accumulate(x.begin() + static_cast<std::ptrdiff_t>(begin), x.begin() + static_cast<std::ptrdiff_t>(end), 0.0) /
        static_cast<double>(end - begin);
  }
  return out;
}
size_t smoothing(size_t points) { return std::clamp<size_t>(points / 20, 5, 50); }

std::vector<double> block_means(std::span<const double> x) {
  const size_t blocks = std::clamp<size_t>(x.size() / 5, 4, 20);
  std::vector<double> out;
  for (size_t k = 0; k < blocks; ++k) {
    const size_t begin = x.size() * k / blocks, end = x.size() * (k + 1) / blocks;
    out.push_back(
        std::accumulate(x.begin() + static_cast<std::ptrdiff_t>(begin), x.begin() + static_cast<std::ptrdiff_t>(end), 0.0) /
        static_cast<double>(end - begin));
  }
  return out;
}

struct Estimate {
  double value = 0, half_width = 0;
};

Estimate mean_of(std::span<const double> x) {
  const std::vector<double> m = block_means(x);
  const auto n = static_cast<double>(m.size());
  const double mean = std::accumulate(m.begin(), m.end(), 0.0) / n;
  double squares = 0;
  for (const double v : m) squares += (v - mean) * (v - mean);
  return {mean, student(n - 1) * std::sqrt(squares / (n - 1) / n)};
}

// Returns the rise of a straight line through the block means, from the first block to the last.
Estimate drift_of(std::span<const double> x) {
  const std::vector<double> m = block_means(x);
  const auto n = static_cast<double>(m.size());
  const double middle = (n - 1) / 2, mean = std::accumulate(m.begin(), m.end(), 0.0) / n;
  double xy = 0, xx = 0, residual = 0;
  for (size_t k = 0; k < m.size(); ++k) {
    const double at = static_cast<double>(k) - middle;
    xy += at * (m[k] - mean), xx += at * at;
  }
  const double slope = xy / xx;
  for (size_t k = 0; k < m.size(); ++k) {
    const double r = m[k] - mean - slope * (static_cast<double>(k) - middle);
    residual += r * r;
  }
  return {slope * (n - 1), student(n - 2) * std::sqrt(residual / (n - 2) / xx) * (n - 1)};
}

std::span<const double> last_third(const std::vector<double>& d) {
  return std::span(d).last(std::max(d.size() / 3, kLeastLate));
}

// The widths that further runs of b's side show.
struct Scatter {
  std::map<int64_t, double> early;  // largest relative difference up to a step
  double band = 0, mean = 0;        // of their late differences: largest smoothed value, mean absolute value
  double centre = 0, slope = 0;     // of their late differences: largest |mean over the last third|, largest |drift|
};

Scatter scatter_of(const TrainingCurve& b, const std::vector<TrainingCurve>& repeats, const std::vector<TrainingCurve>& band,
                   int64_t late_from) {
  Scatter out;
  std::vector<const TrainingCurve*> all;
  if (band.empty()) all.push_back(&b);
  for (const TrainingCurve& r : band) all.push_back(&r);
  for (const TrainingCurve& r : repeats) all.push_back(&r);
  double sum = 0;
  size_t count = 0;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = i + 1; k < all.size(); ++k) {
      const Common c = common_steps(all[i]->loss, all[k]->loss);
      std::vector<double> late;
      for (size_t t = 0; t < c.step.size(); ++t) {
        const double d = c.a[t] - c.b[t];
        if (!std::isfinite(d)) continue;
        if (c.step[t] < late_from) {
          double& most = out.early[c.step[t]];
          most = std::max(most, std::abs(d) / std::abs(c.b[t]));
        } else {
          late.push_back(d), sum += std::abs(d), ++count;
        }
      }
      if (!late.empty())
        for (const double d : moving_mean(late, smoothing(late.size()))) out.band = std::max(out.band, std::abs(d));
      if (late.size() >= kLeastLate) {
        out.centre = std::max(out.centre, std::abs(mean_of(last_third(late)).value));
        out.slope = std::max(out.slope, std::abs(drift_of(late).value));
      }
    }
  double most = 0;
  for (auto& [step, value] : out.early) most = value = std::max(most, value);
  out.mean = count > 0 ? sum / static_cast<double>(count) : 0;
  return out;
}

void judge_late(CurveVerdict& v, const Common& c, size_t begin, const Scatter& scatter, const CurveOptions& o,
                double resolution) {
  CurveVerdict::Late& late = v.late;
  std::vector<double> d;
  std::vector<int64_t> step;
  double absolute = 0;
  for (size_t i = begin; i < c.step.size(); ++i) {
    const double x = c.a[i] - c.b[i];
    if (!std::isfinite(x)) continue;
    d.push_back(x), step.push_back(c.step[i]), absolute += std::abs(x);
  }
  if (d.size() < kLeastLate) return;
  late.steps = static_cast<int64_t>(d.size());
  late.from = step.front();
  late.band = (scatter.band > 0 ? 2 * scatter.band : o.limit) + resolution;
  const std::vector<double> smooth = moving_mean(d, smoothing(d.size()));
  for (size_t i = 0; i < smooth.size(); ++i)
    if (std::abs(smooth[i]) > std::abs(late.most)) late.most = smooth[i], late.most_at = step[i];
  late.centre = 2 * scatter.centre, late.slope = 2 * scatter.slope;
  const Estimate mean = mean_of(last_third(d)), drift = drift_of(d);
  late.mean = mean.value, late.error = mean.half_width + resolution;
  late.drift = drift.value, late.drift_error = drift.half_width + 2 * resolution;
  if (scatter.mean > 0) late.noise_ratio = absolute / static_cast<double>(d.size()) / scatter.mean;
}

void add_rules(CurveVerdict& v, const Common& c) {
  double absolute = 0, relative = 0;
  size_t n = 0;
  for (size_t i = 0; i < c.step.size(); ++i)
    if (std::isfinite(c.a[i] - c.b[i])) {
      absolute += std::abs(c.a[i] - c.b[i]), relative += std::abs(c.a[i] - c.b[i]) / std::abs(c.b[i]), ++n;
    }
  const double first = std::abs(c.a[0] - c.b[0]), count = static_cast<double>(std::max<size_t>(n, 1));
  const std::string mindformers = "MindFormers' acceptance";
  v.rules = {{mindformers, "first loss, absolute", first, 0.005},
             {mindformers, "first loss, relative", first / std::abs(c.b[0]), 0.005},
             {mindformers, "mean absolute difference", absolute / count, 0.01},
             {mindformers, "mean relative difference", relative / count, 0.01}};
  if (v.norm) v.rules.push_back({mindformers, "gradient norm, mean relative", *v.norm, 0.1});
  if (v.late.steps > 0)
    v.rules.push_back({"the precision guide's case", "late difference, smoothed", std::abs(v.late.most), 0.03});
  v.rules.push_back({"ModelLink's own tests", "mean relative difference", relative / count, 0.02});
}

void compare_rates(CurveVerdict& v, const TrainingCurve& a, const TrainingCurve& b) {
  const Common c = common_steps(a.rate, b.rate);
  v.rates.steps = static_cast<int64_t>(c.step.size());
  for (size_t i = 0; i < c.step.size(); ++i) {
    const double size = std::max(std::abs(c.a[i]), std::abs(c.b[i]));
    const double relative = size > 0 ? std::abs(c.a[i] - c.b[i]) / size : 0;
    if (relative > v.rates.most) v.rates.most = relative, v.rates.most_at = c.step[i];
    if (relative > 1e-6 + a.rate_resolution + b.rate_resolution && v.rates.first_other == 0) v.rates.first_other = c.step[i];
  }
  if (v.rates.first_other > 0)
    v.notes.push_back(fmt::format("The learning rates differ from step {} on, at most by {:.3g} % at step {}.",
                                  v.rates.first_other, 100 * v.rates.most, v.rates.most_at));
}

std::string signed_text(double x) { return fmt::format("{:+.4g}", x); }

Series series_of(const std::string& name, const std::map<int64_t, double>& values) {
  Series s{name, {}, {}};
  for (const auto& [step, value] : values) s.x.push_back(static_cast<double>(step)), s.y.push_back(value);
  return s;
}

}  // namespace

double loss_envelope(const std::string& compute, int64_t step) { return envelope(unit_roundoff(compute), step); }

CurveVerdict judge_curves(const TrainingCurve& a, const TrainingCurve& b, const std::vector<TrainingCurve>& repeats,
                          const CurveOptions& o) {
  const Common c = common_steps(a.loss, b.loss);
  if (c.step.size() < 2)
    throw UserError(fmt::format("{} steps in common", c.step.size()), fmt::format("{}, {}", a.name, b.name),
                    fmt::format("curves are compared at equal steps; the first has {} to {}, the second {} to {}",
                                a.loss.begin()->first, a.loss.rbegin()->first, b.loss.begin()->first, b.loss.rbegin()->first),
                    "log both at the same steps");
  CurveVerdict v;
  v.steps = static_cast<int64_t>(c.step.size()), v.first = c.step.front(), v.last = c.step.back();
  v.compute = !o.compute.empty() ? o.compute : coarser(a.compute, b.compute);
  if (v.compute.empty()) v.compute = "bf16";
  v.from_repeats = !repeats.empty() || !o.band.empty();
  const double unit = unit_roundoff(v.compute), resolution = a.loss_resolution + b.loss_resolution;
  for (size_t i = 0; i < c.step.size() && (c.a[i] == c.b[i] || (std::isnan(c.a[i]) && std::isnan(c.b[i]))); ++i) ++v.exact;
  size_t at = 0;
  for (; at < c.step.size() && c.step[at] <= kEarlySteps; ++at) {
    if (std::isfinite(c.a[at]) != std::isfinite(c.b[at]) && v.not_finite == 0) v.not_finite = c.step[at];
  }
  const size_t late_begin = at;
  for (; at < c.step.size(); ++at)
    if (std::isfinite(c.a[at]) != std::isfinite(c.b[at]) && v.not_finite == 0) v.not_finite = c.step[at];
  for (size_t i = 0; i < c.step.size(); ++i) {
    v.neither.lost = !std::isfinite(c.a[i]) && !std::isfinite(c.b[i]);
    if (v.neither.lost && v.neither.steps++ == 0) v.neither.first = c.step[i];
  }
  for (const TrainingCurve* curve : {&a, &b})
    for (const int64_t step : curve->goes_back)
      v.notes.push_back(
          fmt::format("{} goes back to step {}: its earlier steps from there on are given up.", curve->name, step));
  const Scatter scatter = scatter_of(b, repeats, o.band, kEarlySteps + 1);
  for (size_t i = 0; i < late_begin; ++i) {
    const double difference = std::abs(c.a[i] - c.b[i]);
    if (!std::isfinite(difference)) continue;
    ++v.early.steps;
    double width = envelope(unit, c.step[i]);
    if (const auto up_to = scatter.early.upper_bound(c.step[i]); up_to != scatter.early.begin())
      width = std::max(width, 2 * std::prev(up_to)->second);
    const double ratio = difference / (width * std::abs(c.b[i]) + resolution);
    if (ratio > v.early.ratio) v.early.ratio = ratio, v.early.at = c.step[i], v.early.relative = difference / std::abs(c.b[i]);
    if (ratio > 1 && v.early.first_beyond == 0) v.early.first_beyond = c.step[i];
  }
  judge_late(v, c, late_begin, scatter, o, resolution);
  if (const Common n = common_steps(a.norm, b.norm); !n.step.empty()) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < n.step.size(); ++i)
      if (std::isfinite(n.a[i] - n.b[i]) && n.b[i] != 0) sum += std::abs(n.a[i] - n.b[i]) / std::abs(n.b[i]), ++count;
    if (count > 0) v.norm = sum / static_cast<double>(count);
  }
  compare_rates(v, a, b);
  add_rules(v, c);
  return v;
}

bool CurveVerdict::agrees() const {
  return not_finite == 0 && !neither.lost && early.first_beyond == 0 &&
         (late.steps == 0 || (late.in_band() && late.centred() && late.level())) && late.noise_ratio <= 2 &&
         (!norm || *norm <= 0.1);
}

std::string CurveVerdict::text() const {
  std::string out;
  for (const std::string& note : notes) out += note + " ";
  if (neither.steps > 0)
    out += neither.steps == steps ? fmt::format("No finite loss, on either side, at any of {} steps (NaN or infinite). ", steps)
                                  : fmt::format("Neither loss is finite at {} of {} steps, first at step {}{}. ", neither.steps,
                                                steps, neither.first, neither.lost ? ", and not at the last" : "");
  return out + finding();
}

std::string CurveVerdict::finding() const {
  const char* look_there = "Two runs that fail alike are not equal: look at the first such step of either.";
  if (neither.steps == steps) return look_there;
  if (neither.lost && not_finite == 0 && early.first_beyond == 0 && exact == steps) return look_there;
  if (exact == steps)
    return fmt::format(
        "The losses of all {} steps are equal{}.", steps,
        agrees()
            ? ""
            : fmt::format(", but the gradient norms differ, by {:.0f} % on average: one program measures or clips otherwise",
                          100 * norm.value_or(0)));
  if (not_finite > 0)
    return fmt::format(
        "At step {} one loss is not finite and the other is. Look at that step: `ravine dump --from CHECKPOINT --step {} --what statistics`.",
        not_finite, not_finite);
  std::string found =
      agrees() ? fmt::format("The curves agree over {} steps: {} equal, then differences that roundings explain.", steps, exact)
               : "The curves do not agree.";
  std::string where, look;
  if (early.first_beyond > 0) {
    where = fmt::format(" They part at step {}, at most {:.2g} times what {} explains (step {}: {:.3g} %).", early.first_beyond,
                        early.ratio, compute, early.at, 100 * early.relative);
    look =
        early.first_beyond == first && first > 1
            ? fmt::format(
                  " Step {} is the first that both have logged, and updates lie before it: log every step (log.every=1) to tell a forward pass from an optimizer.",
                  first)
        : early.first_beyond == first
            ? " The first loss already differs: weights, data, or an op of the forward pass; dump step 1 of both and hold the dumps together by `ravine compare`."
            : " The first loss agrees, so forward pass and data do: look at gradients, the optimizer's settings and the rate of the steps before.";
  } else if (late.steps > 0 && !(late.in_band() && late.centred() && late.level())) {
    where = !late.in_band() ? fmt::format(" Behind step {} the smoothed difference reaches {} at step {}; the band is {:.3g}.",
                                          late.from, signed_text(late.most), late.most_at, late.band)
            : !late.centred()
                ? fmt::format(" The difference stays in its band, but to one side: {} +- {:.2g} over the last third.",
                              signed_text(late.mean), late.error)
                : fmt::format(" The difference grows by {} +- {:.2g} from step {} on.", signed_text(late.drift),
                              late.drift_error, late.from);
    look =
        late.in_band() && !late.centred()
            ? " So small and steady a difference may pass, if an evaluation of both models says so: `ravine eval`."
            : " What shows late only is small in each step: which parameters decay, betas and eps, the rate, one op in another type.";
  } else if (late.noise_ratio > 2) {
    where = fmt::format(" The difference is {:.2g} times that of the further runs among themselves.", late.noise_ratio);
    look = " It is centred, but wider than their own scatter: another order of the data or another dropout.";
  } else if (norm && *norm > 0.1) {
    where = fmt::format(" The losses do, the gradient norms differ by {:.3g} % on average.", 100 * *norm);
    look = " Look at what the norm is taken of: before or after clipping, replicated parameters once, the loss scale.";
  } else if (late.steps > 0) {
    where = fmt::format(" Behind step {} the difference is {} +- {:.2g} on average, at most {} when smoothed.", late.from,
                        signed_text(late.mean), late.error, signed_text(late.most));
  } else {
    where = " There are too few steps behind step 50 to say how they end.";
  }
  return found + where + look;
}

Json verdict_json(const CurveVerdict& v) {
  Json rules = Json::array();
  for (const CurveRule& r : v.rules)
    rules.push_back({{"who", r.who}, {"what", r.what}, {"measured", r.measured}, {"limit", r.limit}, {"kept", r.kept()}});
  Json out{{"agrees", v.agrees()},
           {"verdict", v.text()},
           {"steps", v.steps},
           {"exact", v.exact},
           {"compute", v.compute},
           {"early",
            {{"steps", v.early.steps},
             {"ratio", v.early.ratio},
             {"at", v.early.at},
             {"first_beyond", v.early.first_beyond > 0 ? Json(v.early.first_beyond) : Json()}}}};
  out["late"] =
      v.late.steps == 0
          ? Json()
          : Json{{"steps", v.late.steps},       {"band", v.late.band},
                 {"most", v.late.most},         {"most_at", v.late.most_at},
                 {"mean", v.late.mean},         {"mean_error", v.late.error},
                 {"drift", v.late.drift},       {"drift_error", v.late.drift_error},
                 {"in_band", v.late.in_band()}, {"centred", v.late.centred()},
                 {"level", v.late.level()},     {"noise_ratio", v.late.noise_ratio > 0 ? Json(v.late.noise_ratio) : Json()}};
  out["norm"] = v.norm ? Json(*v.norm) : Json();
  out["rates"] = v.rates.steps == 0 ? Json()
                                    : Json{{"steps", v.rates.steps},
                                           {"most", v.rates.most},
                                           {"first_other", v.rates.first_other > 0 ? Json(v.rates.first_other) : Json()}};
  out["not_finite"] = v.not_finite > 0 ? Json(v.not_finite) : Json();
  out["neither_finite"] =
      v.neither.steps > 0 ? Json{{"steps", v.neither.steps}, {"first", v.neither.first}, {"lost", v.neither.lost}} : Json();
  out["rules"] = rules;
  return out;
}

std::vector<Chart> curve_charts(const TrainingCurve& a, const TrainingCurve& b, const std::vector<TrainingCurve>& repeats,
                                const CurveVerdict& v) {
  Chart loss{.title = "loss",
             .x_label = "step",
             .logarithmic = false,
             .series = {series_of(a.name, a.loss), series_of(b.name, b.loss)}};
  for (const TrainingCurve& r : repeats) loss.series.push_back(series_of(r.name, r.loss));
  const Common c = common_steps(a.loss, b.loss);
  Chart difference{.title = "loss of " + a.name + " minus " + b.name, .x_label = "step", .logarithmic = false, .series = {}};
  Series raw{"each step", {}, {}}, smooth{"smoothed", {}, {}};
  std::vector<double> finite;
  for (size_t i = 0; i < c.step.size(); ++i) {
    raw.x.push_back(static_cast<double>(c.step[i])), raw.y.push_back(c.a[i] - c.b[i]);
    if (std::isfinite(raw.y.back())) smooth.x.push_back(raw.x.back()), finite.push_back(raw.y.back());
  }
  smooth.y = moving_mean(finite, smoothing(finite.size()));
  difference.series = {raw, smooth};
  if (v.late.steps > 0)
    for (const double sign : {1.0, -1.0})
      difference.series.push_back({sign > 0 ? "band" : "-band",
                                   {static_cast<double>(v.late.from), static_cast<double>(v.last)},
                                   {sign * v.late.band, sign * v.late.band}});
  std::vector<Chart> out{loss, difference};
  if (!a.norm.empty() && !b.norm.empty())
    out.push_back({.title = "gradient norm",
                   .x_label = "step",
                   .logarithmic = true,
                   .series = {series_of(a.name, a.norm), series_of(b.name, b.norm)}});
  if (!a.rate.empty() && !b.rate.empty())
    out.push_back({.title = "learning rate",
                   .x_label = "step",
                   .logarithmic = false,
                   .series = {series_of(a.name, a.rate), series_of(b.name, b.rate)}});
  return out;
}

SkipThreshold suggest_threshold(const std::vector<TrainingCurve>& curves) {
  std::vector<double> logs;
  for (const TrainingCurve& c : curves) {
    size_t at = 0;
    for (const auto& [step, norm] : c.norm)
      if (at++ >= c.norm.size() / 10 && std::isfinite(norm) && norm > 0) logs.push_back(std::log(norm));
  }
  if (logs.size() < kEarlySteps)
    throw UserError(fmt::format("{} gradient norms after the first tenth", logs.size()), "--suggest-threshold",
                    "a threshold needs at least 50", "name longer runs, or runs that log the gradient norm of each step");
  auto median = [](std::vector<double> x) {
    std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
    return x[x.size() / 2];
  };
  const double middle = median(logs);
  std::vector<double> far;
  for (const double x : logs) far.push_back(std::abs(x - middle));
  const double deviation = 1.4826 * median(far);  // the standard deviation, if the distribution is normal
  SkipThreshold out;
  const double exact = std::exp(middle + 6 * std::max(deviation, 0.01));
  const double unit = std::pow(10.0, std::floor(std::log10(exact)) - 1);
  out.threshold = std::ceil(exact / unit) * unit;  // rounded up to two digits
  out.per_million = 1e6 * 0.5 * std::erfc((std::log(out.threshold) - middle) / std::max(deviation, 0.01) / std::sqrt(2.0));
  for (const TrainingCurve& c : curves) {
    SkipThreshold::Run run{c.name, {}, static_cast<int64_t>(c.norm.size()), 0};
    int64_t streak = 0;
    for (const auto& [step, norm] : c.norm) {
      streak = norm >= out.threshold ? streak + 1 : 0;
      if (streak > 0) run.above.push_back(step);
      run.in_a_row = std::max(run.in_a_row, streak);
    }
    out.runs.push_back(std::move(run));
  }
  return out;
}

}  // namespace ravine

#include "probe/solve_settings.h"

#include <algorithm>
#include <cmath>

namespace ravine {
namespace {

constexpr int64_t kCoarse = 5000, kFine = 60000;  // elements times steps
constexpr size_t kTried = 4;                      // starts that are followed
constexpr int kMostDigits = 5;
constexpr double kNear = 1e3;  // a solution whose worst difference is so far from its bound is not followed to the end

bool is_continuous(Knob k) {
  return k != Knob::decayed && k != Knob::bias_correction && k != Knob::coupled && k != Knob::clip_scale;
}

// A setting as a coordinate: the logarithm of its value, of a beta the logarithm of 1 - beta.
double& value_of(AdamSettings& s, Knob k) {
  switch (k) {
    case Knob::weight_decay:
      return s.weight_decay;
    case Knob::beta1:
      return s.beta1;
    case Knob::beta2:
      return s.beta2;
    case Knob::eps:
      return s.eps;
    case Knob::clip_norm:
      return s.clip_norm;
    case Knob::clip_scale:
      return s.clip_scale;
    case Knob::factor:
      return s.grad_factor;
    default:
      return s.rate;
  }
}

bool is_beta(Knob k) { return k == Knob::beta1 || k == Knob::beta2; }

void set(AdamSettings& s, Knob k, double x) { value_of(s, k) = is_beta(k) ? 1 - std::exp(std::min(x, 0.0)) : std::exp(x); }

// Returns x rounded to so many digits.
double round_to(double x, int digits) {
  if (x == 0 || !std::isfinite(x)) return x;
  return std::stod(fmt::format("{:.{}e}", x, digits - 1));
}

}  // namespace

Solver::Solver(const RecordedUpdates& u, const AdamSettings& configured)
    : u_(u),
      configured_(configured),
      coarse_(elements_of(u, std::max<int64_t>(1, kCoarse / u.steps))),
      fine_(elements_of(u, std::max<int64_t>(1, kFine / u.steps))) {
  for (const double n : u.norms) most_norm_ = std::max(most_norm_, n);
  for (const double r : u.rates) most_rate_ = std::max(most_rate_, r);
}

Misfit Solver::at(AdamSettings& s, const std::vector<Knob>& axes, const Point& x, const ChosenElements& elements, bool choose,
                  std::vector<double>* residuals) const {
  for (size_t i = 0; i < axes.size(); ++i) set(s, axes[i], x[i]);
  return misfit_of(u_, s, elements, choose, residuals);
}

std::vector<double> Solver::starts(Knob k) const {
  std::vector<double> values;
  switch (k) {
    case Knob::lr:
      values = {1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 1.25, 2, 5, 10, 20, 100, 1e3, 1e4};
      break;
    case Knob::factor:
      values = {0x1p-20, 0x1p-16, 0x1p-12, 0x1p-8, 0x1p-4, 0.25, 0.5, 0.8, 1.25, 2, 4, 16, 256, 4096, 65536};
      break;
    case Knob::weight_decay:
      values = {1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1};
      break;
    case Knob::beta1:
      values = {1, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001};
      break;
    case Knob::beta2:
      values = {0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001, 1e-4, 1e-5};
      break;
    case Knob::eps:
      values = {1e-16, 1e-14, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1};
      break;
    default:
      for (const double part : {0.99, 0.9, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4, 1e-5, 1e-6})
        values.push_back(part * most_norm_);
  }
  for (double& x : values) x = std::log(std::max(x, 1e-300));
  return values;
}

// Levenberg and Marquardt's method, with derivatives by differences.
void Solver::descend(AdamSettings& s, const std::vector<Knob>& axes, Point& x, const ChosenElements& elements,
                     bool choose) const {
  const size_t n = axes.size();
  std::vector<double> r, moved;
  Misfit here = at(s, axes, x, elements, choose, &r);
  double damping = 1e-3;
  for (int round = 0; round < 30 && here.squares > 0; ++round) {
    std::vector<std::vector<double>> slope(n);
    for (size_t i = 0; i < n; ++i) {
      constexpr double kStep = 1e-5;
      Point y = x;
      y[i] += axes[i] == Knob::beta1 || axes[i] == Knob::beta2 ? -kStep : kStep;
      AdamSettings t = s;
      at(t, axes, y, elements, false, &moved);
      slope[i].resize(r.size());
      for (size_t k = 0; k < r.size(); ++k) slope[i][k] = (moved[k] - r[k]) / (y[i] - x[i]);
    }
    double a[2][2] = {{0, 0}, {0, 0}}, b[2] = {0, 0};
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < r.size(); ++k) {
        b[i] -= slope[i][k] * r[k];
        for (size_t j = 0; j < n; ++j) a[i][j] += slope[i][k] * slope[j][k];
      }
    bool better = false;
    for (int attempt = 0; attempt < 8 && !better; ++attempt) {
      const double p = a[0][0] * (1 + damping) + 1e-30, q = n > 1 ? a[1][1] * (1 + damping) + 1e-30 : 1,
                   o = n > 1 ? a[0][1] : 0;
      const double det = p * q - o * o;
      Point y = x;
      y[0] += std::clamp((b[0] * q - (n > 1 ? b[1] : 0) * o) / det, -2.0, 2.0);
      if (n > 1) y[1] += std::clamp((b[1] * p - b[0] * o) / det, -2.0, 2.0);
      for (size_t i = 0; i < n; ++i)
        if (is_beta(axes[i])) y[i] = std::min(y[i], 0.0);
      AdamSettings t = s;
      const Misfit there = at(t, axes, y, elements, choose, &moved);
      better = there.squares < here.squares;
      if (better) {
        const bool done = here.squares - there.squares < 1e-9 * here.squares;
        s = t, x = y, here = there, r = moved, damping = std::max(damping / 10, 1e-12);
        if (done) return;
      } else {
        damping *= 10;
      }
    }
    if (!better) return;
  }
}

// Replaces the values by the roundest numbers that fit, or that fit as well as they do.
Solution Solver::rounded(const AdamSettings& solved, const std::vector<Knob>& axes, const Point& x) const {
  AdamSettings exact = solved;
  for (size_t i = 0; i < axes.size(); ++i) set(exact, axes[i], x[i]);
  const Misfit best = misfit_of(u_, exact, fine_);
  Solution out{.rule = exact, .digits = 9 * static_cast<int>(axes.size())};
  auto forms = [&](Knob k, int digits) {
    const double v = value_of(exact, k);
    if (k == Knob::lr) return std::vector<double>{round_to(v * most_rate_, digits) / most_rate_, round_to(v, digits)};
    if (is_beta(k)) return std::vector<double>{1 - round_to(1 - v, digits), round_to(v, digits)};
    if (k == Knob::factor && digits == 1) return std::vector<double>{std::exp2(std::round(std::log2(v))), round_to(v, digits)};
    return std::vector<double>{round_to(v, digits)};
  };
  for (int sum = static_cast<int>(axes.size()); sum <= kMostDigits * static_cast<int>(axes.size()); ++sum)
    for (int first = 1; first <= std::min(kMostDigits, sum); ++first) {
      const int second = sum - first;
      if (axes.size() == 1 ? second != 0 : (second < 1 || second > kMostDigits)) continue;
      for (const double v : forms(axes[0], first))
        for (const double w : axes.size() > 1 ? forms(axes[1], second) : std::vector<double>{0}) {
          AdamSettings t = exact;
          value_of(t, axes[0]) = v;
          if (axes.size() > 1) value_of(t, axes[1]) = w;
          if (const Misfit m = misfit_of(u_, t, fine_);
              m.fits() && m.squares <= 4 * best.squares + 1e-3 * static_cast<double>(m.judged))
            return {.rule = t, .digits = sum};
        }
    }
  return out;
}

void Solver::solve_axes(const AdamSettings& base, const std::vector<Knob>& axes, bool choose, int digits,
                        std::vector<Solution>& out) const {
  if (axes.empty()) {
    AdamSettings s = base;
    misfit_of(u_, s, fine_, choose);
    out.push_back({.rule = s, .digits = digits});
    return;
  }
  struct Start {
    double squares;
    Point x;
  };
  std::vector<Start> all;
  for (const double x : starts(axes[0]))
    for (const double y : axes.size() > 1 ? starts(axes[1]) : std::vector<double>{0}) {
      Point point = axes.size() > 1 ? Point{x, y} : Point{x};
      AdamSettings s = base;
      all.push_back({at(s, axes, point, coarse_, choose).squares, std::move(point)});
    }
  std::stable_sort(all.begin(), all.end(), [](const Start& a, const Start& b) { return a.squares < b.squares; });
  Solution best;
  double least = std::numeric_limits<double>::infinity();
  Point best_at;
  for (size_t i = 0; i < std::min(kTried, all.size()); ++i) {
    AdamSettings s = base;
    Point x = all[i].x;
    descend(s, axes, x, coarse_, choose);
    const double squares = at(s, axes, x, coarse_, choose).squares;
    if (squares < least) least = squares, best.rule = s, best_at = x;
  }
  AdamSettings s = best.rule;
  if (at(s, axes, best_at, coarse_, choose).worst < kNear) descend(s, axes, best_at, fine_, choose);
  Solution r = rounded(s, axes, best_at);
  r.digits += digits;
  out.push_back(std::move(r));
}

std::vector<Solution> Solver::solve(const std::vector<Knob>& knobs) const {
  std::vector<AdamSettings> bases{configured_};
  std::vector<int> digits{0};
  std::vector<Knob> axes;
  bool choose = false;
  for (const Knob k : knobs) {
    if (k == Knob::decayed) choose = true, ++digits[0];
    if (k == Knob::bias_correction) bases[0].bias_correction = !bases[0].bias_correction, ++digits[0];
    if (k == Knob::coupled) bases[0].coupled = !bases[0].coupled, ++digits[0];
    if (is_continuous(k)) axes.push_back(k);
  }
  for (const Knob k : knobs)
    if (k == Knob::clip_scale) {
      const AdamSettings base = bases[0];
      const int before = digits[0];
      bases.clear(), digits.clear();
      for (int power = 1; power <= 32; ++power) {
        bases.push_back(base), digits.push_back(before + 1);
        bases.back().clip_scale = std::exp2(power);
      }
    }
  std::vector<Solution> out;
  for (size_t i = 0; i < bases.size(); ++i) {
    solve_axes(bases[i], axes, choose, digits[i], out);
    // A setting of zero has no logarithm.
    for (size_t z = 0; z < axes.size(); ++z) {
      const Knob k = axes[z];
      if (k != Knob::weight_decay && k != Knob::clip_norm && k != Knob::eps) continue;
      AdamSettings zero = bases[i];
      value_of(zero, k) = 0;
      std::vector<Knob> rest = axes;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(z));
      solve_axes(zero, rest, choose, digits[i], out);
    }
  }
  return out;
}

}  // namespace ravine

#include "probe/recorded_updates.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "files/convert.h"
#include "files/safetensors.h"

namespace ravine {
namespace {

constexpr double kMostResidual = 1e6;  // larger ones say nothing more, and squares of them would hide others
constexpr double kUnderflow = 1e-36;   // second moments below it are not exact in f32

std::vector<double> all_numbers(const SafetensorsReader& file, const TensorInfo& t) {
  std::vector<double> out(static_cast<size_t>(t.shape.count()));
  convert(t.dtype, file.bytes(t).data(), DType::f64, out.data(), t.shape.count());
  return out;
}

// The figures of each step that all elements share.
struct StepFigures {
  double rate, scale, bias1, bias2;
};

std::vector<StepFigures> figures_of_steps(const RecordedUpdates& u, const AdamSettings& s) {
  std::vector<StepFigures> out;
  for (int64_t t = 1; t <= u.steps; ++t) {
    const auto i = static_cast<size_t>(t - 1);
    const auto n = static_cast<double>(t);
    const double norm = u.norms[i] * s.grad_factor;
    const double clip = s.clip_norm > 0 ? std::min(1.0, s.clip_norm / (s.clip_scale * norm + 1e-6)) : 1;
    out.push_back({.rate = s.rates.empty() ? u.rates[i] * s.rate : s.rates[i],
                   .scale = s.grad_factor * clip,
                   .bias1 = s.bias_correction ? 1 - std::pow(s.beta1, n) : 1,
                   .bias2 = s.bias_correction ? 1 - std::pow(s.beta2, n) : 1});
  }
  return out;
}

// One element in the course of its updates.
struct Element {
  double p, m = 0, v = 0;
  double mean = 0, error = 0;  // mean: moving mean of |gradient|; error: bound of the error of p
  bool judged = true;
};

// Does one update of the element; g is the recorded gradient.
inline void step(Element& e, const AdamSettings& s, double decay, const StepFigures& f, double g, double t, double u,
                 double stored) {
  const double added = s.coupled ? decay * e.p : 0;
  const double grad = f.scale * g + added;
  e.m = s.beta1 * e.m + (1 - s.beta1) * grad;
  e.v = s.beta2 * e.v + (1 - s.beta2) * grad * grad;
  e.mean = s.beta1 * e.mean + (1 - s.beta1) * (std::abs(f.scale * g) + std::abs(added));
  if (e.v > 0 && e.v < kUnderflow && u > 1e-10) e.judged = false;
  const double root = std::sqrt(e.v / f.bias2) + s.eps, before = e.p;
  const double moved = e.m == 0 ? 0 : e.m / f.bias1 / root;
  const double swing = e.mean == 0 ? 0 : e.mean / f.bias1 / root;
  e.p -= f.rate * (moved + (s.coupled ? 0 : decay * before));
  e.error += u * (2 * std::abs(e.p) + std::abs(f.rate) * (2 * decay * std::abs(before) + (16 + std::sqrt(t)) * swing)) +
             stored * std::abs(e.p);
}

// Adds the differences of one parameter, which decays by `decay`.
void add_param(const RecordedUpdates& u, const AdamSettings& s, const std::vector<StepFigures>& steps, size_t index,
               double decay, const std::vector<int64_t>& elements, Misfit& out, std::vector<double>* residuals) {
  const RecordedUpdates::Of& p = u.params[index];
  const int64_t n = p.count();
  for (const int64_t i : elements) {
    const size_t at = static_cast<size_t>(i);
    Element e{.p = p.before[at]};
    const size_t began = residuals ? residuals->size() : 0;
    double squares = 0, worst = 0, last = 0;
    auto note = [&](double difference, double bound) {
      double r = difference == 0 ? 0 : difference / (bound + 1e-300);
      if (!std::isfinite(r)) r = kMostResidual;
      r = std::clamp(r, -kMostResidual, kMostResidual);
      squares += r * r, worst = std::max(worst, std::abs(r));
      if (residuals) residuals->push_back(r);
    };
    for (int64_t t = 0; t < u.steps; ++t) {
      const auto k = static_cast<size_t>(t);
      step(e, s, decay, steps[k], p.grads[static_cast<size_t>(t * n + i)], static_cast<double>(t + 1), u.rounding, u.stored);
      if (!u.every_step && t + 1 < u.steps) continue;
      last = e.p - p.after[static_cast<size_t>((u.every_step ? t * n : 0) + i)];
      note(last, e.error);
    }
    const double factor = u.rounding * (20 + static_cast<double>(u.steps));
    if (!p.m.empty()) note(e.m - p.m[at], factor * e.mean);
    if (!p.v.empty()) note(e.v - p.v[at], factor * e.v);
    if (!e.judged) {
      if (residuals) std::fill(residuals->begin() + static_cast<std::ptrdiff_t>(began), residuals->end(), 0.0);
      ++out.left_out;
      continue;
    }
    ++out.judged, out.squares += squares;
    if (worst > out.worst) out.worst = worst, out.worst_param = index;
    const double change = p.after[p.after.size() - static_cast<size_t>(n) + at] - p.before[at];
    out.missed += last * last, out.moved += change * change;
  }
}

void add(Misfit& all, const Misfit& of) {
  all.squares += of.squares, all.missed += of.missed, all.moved += of.moved;
  all.judged += of.judged, all.left_out += of.left_out;
  if (of.worst > all.worst) all.worst = of.worst, all.worst_param = of.worst_param;
}

// The narrowest type that holds all noted numbers.
struct Precision {
  bool in_f32 = true, in_bf16 = true, in_f16 = true;
  void note(const std::vector<double>& values) {
    for (const double x : values) {
      const auto single = static_cast<float>(x);
      in_f32 = in_f32 && static_cast<double>(single) == x;
      in_bf16 = in_bf16 && static_cast<double>(static_cast<float>(bf16(single))) == x;
      in_f16 = in_f16 && static_cast<double>(static_cast<float>(f16(single))) == x;
    }
  }
  double arithmetic() const { return in_f32 ? 0x1p-24 : 0x1p-53; }
  double stored() const { return in_bf16 ? 0x1p-8 : in_f16 ? 0x1p-11 : 0; }
};

void read_moments(const SafetensorsReader& file, RecordedUpdates::Of& p) {
  auto find = [&](std::initializer_list<const char*> prefixes, std::vector<double>& to) {
    for (const char* prefix : prefixes)
      if (const TensorInfo* t = file.find(prefix + p.name); t && is_float(t->dtype) && t->shape.count() == p.count())
        to = all_numbers(file, *t);
  };
  find({"state.m.", "state.exp_avg.", "exp_avg."}, p.m);
  find({"state.v.", "state.exp_avg_sq.", "exp_avg_sq."}, p.v);
}

}  // namespace

double Misfit::unexplained() const { return moved > 0 ? std::sqrt(missed / moved) : missed > 0 ? 1 : 0; }

RecordedUpdates read_updates(const ReplayInput& input, const std::string& path, const std::vector<double>& rates) {
  const SafetensorsReader file(path);
  RecordedUpdates u{.params = {}, .steps = input.steps, .rates = rates};
  if (u.steps < 1) throw UserError("no gradients", path, "--input must hold the gradients of a step or more", "add g.NAME");
  std::vector<double> squares(static_cast<size_t>(input.steps));
  Precision precision;
  bool first = true;
  for (const ReplayParam& p : input.params) {
    const TensorInfo* t = file.find("p." + p.name);
    if (!t) t = file.find(p.name);
    if (!t)
      throw UserError(fmt::format("no weights 'p.{}'", p.name), path,
                      "it holds the weights of each parameter of --input after the updates", "add 'p." + p.name + "'");
    const int64_t n = p.shape.count(), rows = t->shape.count() / std::max<int64_t>(n, 1);
    const int more = t->shape.rank() - p.shape.rank();
    bool fits = is_float(t->dtype) && rows * n == t->shape.count() &&
                (more == 0 ? rows == 1 : more == 1 && (rows == u.steps || rows == u.steps + 1));
    for (int d = 0; fits && d < p.shape.rank(); ++d) fits = t->shape[more + d] == p.shape[d];
    if (!fits || (!first && u.every_step != (more == 1)))
      throw UserError(fmt::format("'{}' is {} {}", t->name, name(t->dtype), t->shape.text()), path,
                      fmt::format("weights after the last update are {}; those after each of {} steps have one more dim, for "
                                  "all parameters alike",
                                  p.shape.text(), u.steps),
                      "store it so");
    u.every_step = more == 1, first = false;
    RecordedUpdates::Of of{
        .name = p.name, .shape = p.shape, .before = p.values, .grads = p.grads, .after = {}, .m = {}, .v = {}};
    of.after = all_numbers(file, *t);
    for (const double x : of.after)
      if (!std::isfinite(x)) throw UserError(fmt::format("'{}' holds {}", t->name, x), path, "weights are numbers", "mend it");
    if (rows == u.steps + 1 && more == 1) of.after.erase(of.after.begin(), of.after.begin() + n);
    precision.note(of.after);
    read_moments(file, of);
    for (int64_t s = 0; s < u.steps; ++s)
      for (int64_t i = 0; i < n; ++i) {
        const double g = p.grads[static_cast<size_t>(s * n + i)];
        squares[static_cast<size_t>(s)] += g * g;
      }
    u.params.push_back(std::move(of));
  }
  for (const double x : squares) u.norms.push_back(std::sqrt(x));
  if (!std::all_of(u.norms.begin(), u.norms.end(), [](double x) { return std::isfinite(x); }))
    throw UserError("gradients that are not finite", "--input", "an update needs numbers", "correct the file");
  u.rounding = precision.arithmetic(), u.stored = precision.stored();
  return u;
}

ChosenElements elements_of(const RecordedUpdates& u, int64_t most) {
  int64_t all = 0;
  for (const RecordedUpdates::Of& p : u.params) all += p.count();
  ChosenElements out;
  for (const RecordedUpdates::Of& p : u.params) {
    const int64_t n = p.count();
    int64_t wanted = n;
    if (most > 0 && most < all)
      wanted = std::min(n, std::max<int64_t>(4, static_cast<int64_t>(static_cast<double>(most) * static_cast<double>(n) /
                                                                     static_cast<double>(all))));
    std::vector<int64_t> chosen;
    for (int64_t i = 0; i < wanted; ++i)
      chosen.push_back(static_cast<int64_t>(static_cast<double>(i) * static_cast<double>(n) / static_cast<double>(wanted)));
    out.push_back(std::move(chosen));
  }
  return out;
}

Misfit misfit_of(const RecordedUpdates& u, AdamSettings& s, const ChosenElements& elements, bool choose_decay,
                 std::vector<double>* residuals) {
  const std::vector<StepFigures> steps = figures_of_steps(u, s);
  Misfit all;
  if (residuals) residuals->clear();
  for (size_t i = 0; i < u.params.size(); ++i) {
    Misfit mine;
    const size_t began = residuals ? residuals->size() : 0;
    add_param(u, s, steps, i, s.decays[i] ? s.weight_decay : 0, elements[i], mine, residuals);
    if (choose_decay && s.weight_decay > 0) {
      Misfit other;
      std::vector<double> others;
      add_param(u, s, steps, i, s.decays[i] ? 0 : s.weight_decay, elements[i], other, residuals ? &others : nullptr);
      if (other.squares < mine.squares && !mine.fits()) {
        mine = other, s.decays[i] = s.decays[i] ? 0 : 1;
        if (residuals) std::copy(others.begin(), others.end(), residuals->begin() + static_cast<std::ptrdiff_t>(began));
      }
    }
    add(all, mine);
  }
  return all;
}

std::vector<double> solve_rates(const RecordedUpdates& u, const AdamSettings& s, const ChosenElements& elements) {
  const std::vector<StepFigures> steps = figures_of_steps(u, s);
  std::vector<double> product(steps.size()), square(steps.size());
  for (size_t index = 0; index < u.params.size(); ++index) {
    const RecordedUpdates::Of& p = u.params[index];
    const int64_t n = p.count();
    const double decay = s.decays[index] ? s.weight_decay : 0;
    for (const int64_t i : elements[index]) {
      Element e{.p = p.before[static_cast<size_t>(i)]};
      for (int64_t t = 0; t < u.steps; ++t) {
        const auto k = static_cast<size_t>(t);
        const StepFigures unit{.rate = 1, .scale = steps[k].scale, .bias1 = steps[k].bias1, .bias2 = steps[k].bias2};
        const double before = e.p, after = p.after[static_cast<size_t>(t * n + i)];
        step(e, s, decay, unit, p.grads[static_cast<size_t>(t * n + i)], static_cast<double>(t + 1), u.rounding, u.stored);
        const double direction = e.p - before, weight = 1 / (before * before + after * after + 1e-30);
        product[k] += weight * direction * (after - before), square[k] += weight * direction * direction;
        e.p = after;
      }
    }
  }
  std::vector<double> out;
  for (size_t k = 0; k < steps.size(); ++k) out.push_back(square[k] > 0 ? product[k] / square[k] : 0);
  return out;
}

}  // namespace ravine

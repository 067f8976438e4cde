#include "model/layers/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>

#include "base/log_once.h"

namespace ravine {

namespace {

// Reads one of the two spellings: `o` under `key`; null: plain.
RopeSettings read_spelling(ConfigReader& r, const Json* o, const std::string& key, int64_t head_size, int64_t max_positions,
                           double partial, const std::string& theta) {
  RopeSettings s;
  s.max_positions = static_cast<double>(max_positions);
  s.theta = r.number(theta, 1e-3, 1e12, 10000);
  // As in Transformers, the value outside the object is used if both are set (Phi-3).
  const double original = r.number("original_max_position_embeddings", 1, 1e9, 0);
  auto rotate = [&](double share) { s.share = share, s.dims = static_cast<int64_t>(static_cast<double>(head_size) * share); };
  rotate(partial > 0 ? partial : 1);
  if (!o) return s;

  ConfigReader in(*o, r.where() + ", " + key);
  s.theta = in.number("rope_theta", 1e-3, 1e12, s.theta);
  double share = in.number("partial_rotary_factor", 0, 1, partial > 0 ? partial : 1);
  if (partial == 0 && share != 1)
    in.refuse("partial_rotary_factor", "this family rotates whole heads", "use a model without it");
  if (partial > 0) rotate(share);
  std::string type = in.text("rope_type", in.text("type", "default"));
  if (in.has("rope_type") && in.text("type", type) != type)
    log_once(
        fmt::format("warning: {}: rope_type and type differ: rope_type counts, as in Transformers (remove the one that is not "
                    "meant)",
                    in.where()));
  in.ignore({"type"});
  if (type == "default") {
    in.ignore({"factor"});
    in.finish();
    return s;
  }
  // the name in early files of Phi-3
  if ((type == "su" || type == "yarn") && in.has("short_factor")) type = "longrope";
  if (type != "linear" && type != "dynamic" && type != "yarn" && type != "llama3" && type != "longrope")
    in.refuse(in.has("rope_type") ? "rope_type" : "type", "it must be default, linear, dynamic, yarn, llama3 or longrope",
              "use a model with one of these");
  if (!in.has("factor") && type != "yarn" && type != "longrope")
    in.refuse("factor", "it is required for rope_type " + type, "complete the field");
  s.factor = in.number("factor", 1e-3, 1e6, 0);
  s.original_positions = in.number("original_max_position_embeddings", 1, 1e9, 0);
  if (original > 0 && (type == "llama3" || type == "yarn" || type == "longrope")) s.original_positions = original;
  if (type == "linear") {
    s.type = RopeSettings::linear;
  } else if (type == "dynamic") {
    s.type = RopeSettings::dynamic;
  } else if (type == "llama3") {
    s.type = RopeSettings::llama3;
    for (const char* k : {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
      if (!in.has(k) && !(k[0] == 'o' && original > 0))
        in.refuse(k, "it is required for rope_type llama3", "complete the field");
    s.low_freq_factor = in.number("low_freq_factor", 1e-3, 1e6, 1);
    s.high_freq_factor = in.number("high_freq_factor", 1e-3, 1e6, 4);
    if (!(s.high_freq_factor > s.low_freq_factor))
      in.refuse("high_freq_factor", "it must be above low_freq_factor", "correct the field");
  } else if (type == "longrope") {
    s.type = RopeSettings::longrope;
    if (s.original_positions == 0)
      in.refuse("original_max_position_embeddings", "it is required for rope_type longrope, here or beside it",
                "complete the field");
    s.short_factor = in.numbers("short_factor", 1e-6, 1e6), s.long_factor = in.numbers("long_factor", 1e-6, 1e6);
    for (const auto& [k, factors] : {std::pair{"short_factor", &s.short_factor}, {"long_factor", &s.long_factor}})
      if (static_cast<int64_t>(factors->size()) != s.dims / 2)
        in.refuse(k, fmt::format("it must have {} numbers, one for each pair of rotated dims of a head", s.dims / 2),
                  "use the field of this model");
    if (s.factor == 0) s.factor = s.max_positions / s.original_positions;
    s.attention_factor = in.number("attention_factor", 0, 1e3,
                                   s.factor <= 1 ? 1 : std::sqrt(1 + std::log(s.factor) / std::log(s.original_positions)));
  } else {
    s.type = RopeSettings::yarn;
    if (s.original_positions == 0) s.original_positions = s.max_positions;
    if (s.factor == 0) s.factor = s.max_positions / s.original_positions;
    s.beta_fast = in.number("beta_fast", 1e-3, 1e6, 32);
    s.beta_slow = in.number("beta_slow", 1e-3, 1e6, 1);
    s.truncate = in.boolean("truncate", true);
    double mscale = in.number("mscale", 0, 1e3, 0), all = in.number("mscale_all_dim", 0, 1e3, 0);
    auto m = [&](double x) { return s.factor <= 1 ? 1.0 : 0.1 * x * std::log(s.factor) + 1.0; };
    s.attention_factor = in.number("attention_factor", 0, 1e3, mscale != 0 && all != 0 ? m(mscale) / m(all) : m(1));
    s.score_factor = m(all);
  }
  in.finish();
  return s;
}

bool same_rope(const RopeSettings& a, const RopeSettings& b) {
  const auto all = [](const RopeSettings& s) {
    return std::tie(s.type, s.theta, s.factor, s.low_freq_factor, s.high_freq_factor, s.beta_fast, s.beta_slow,
                    s.attention_factor, s.score_factor, s.short_factor, s.long_factor, s.truncate, s.original_positions,
                    s.share);
  };
  return all(a) == all(b);
}

}  // namespace

RopeSettings read_rope(ConfigReader& r, int64_t head_size, int64_t max_positions, double partial, const std::string& theta) {
  const Json *scaling = r.object("rope_scaling"), *parameters = r.object("rope_parameters");
  const auto read = [&](const Json* o, const char* key) {
    return read_spelling(r, o, key, head_size, max_positions, partial, theta);
  };
  if (!scaling || scaling->empty()) return read(parameters, "rope_parameters");
  const RopeSettings s = read(scaling, "rope_scaling");
  if (parameters && !parameters->empty() && !same_rope(s, read(parameters, "rope_parameters")))
    log_once(
        fmt::format("warning: {}: rope_scaling and rope_parameters differ: rope_scaling counts, as in Transformers (remove "
                    "the one that is not meant)",
                    r.where()));
  return s;
}

std::vector<double> inverse_frequencies(const RopeSettings& s, int64_t length) {
  double d = static_cast<double>(s.dims), theta = s.theta;
  if (s.type == RopeSettings::dynamic) {
    double n = std::max(static_cast<double>(length), s.max_positions);
    theta *= std::pow(s.factor * n / s.max_positions - (s.factor - 1), d / (d - 2));
  }
  std::vector<double> f(static_cast<size_t>(s.dims / 2));
  for (size_t i = 0; i < f.size(); ++i) f[i] = std::pow(theta, -2.0 * static_cast<double>(i) / d);
  if (s.type == RopeSettings::linear) {
    for (double& x : f) x /= s.factor;
  } else if (s.type == RopeSettings::llama3) {
    double low = s.original_positions / s.low_freq_factor, high = s.original_positions / s.high_freq_factor;
    for (double& x : f) {
      double wave = 2 * std::numbers::pi / x;
      double smooth = (s.original_positions / wave - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
      if (wave > low)
        x /= s.factor;
      else if (wave >= high)
        x = (1 - smooth) * x / s.factor + smooth * x;
    }
  } else if (s.type == RopeSettings::longrope) {
    const std::vector<double>& factors = static_cast<double>(length) > s.original_positions ? s.long_factor : s.short_factor;
    for (size_t i = 0; i < f.size(); ++i) f[i] /= factors[i];
  } else if (s.type == RopeSettings::yarn) {
    auto correction = [&](double rotations) {
      return d * std::log(s.original_positions / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
    };
    double low = correction(s.beta_fast), high = correction(s.beta_slow);
    if (s.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, d - 1);
    if (low == high) high += 0.001;
    for (size_t i = 0; i < f.size(); ++i) {
      double extrapolate = 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      f[i] = f[i] / s.factor * (1 - extrapolate) + f[i] * extrapolate;
    }
  }
  return f;
}

RopeTable::RopeTable(RopeSettings s) : settings_(std::move(s)) {
  tables_.interleaved = settings_.interleaved;
  if (settings_.type != RopeSettings::dynamic) return;
  tables_.limit = static_cast<int64_t>(settings_.max_positions);
  tables_.of_length = [this](int64_t length) { return of_length(length); };
}

TensorView RopeTable::of_length(int64_t length) {
  constexpr size_t kKept = 64;  // a batch with more lengths than this makes tables again
  const TensorView& near = tables_.near;
  if (const auto it = of_lengths_.find(length); it != of_lengths_.end())
    return view_of(it->second.data(), near.dtype, near.shape, near.device);
  if (of_lengths_.size() == kKept) of_lengths_.clear();
  return made(of_lengths_[length], near.rows(), length, near.dtype, near.device);
}

void RopeTable::prepare(int64_t positions, DType dtype, DeviceKind device) {
  const TensorView& view = tables_.near;
  if ((view.absent() ? 0 : view.rows()) >= positions && view.dtype == dtype && view.device == device) return;
  const int64_t rows = std::max(
      positions, std::min<int64_t>(2 * positions, std::max<int64_t>(positions, static_cast<int64_t>(settings_.max_positions))));
  of_lengths_.clear();
  tables_.near = made(memory_, rows, 0, dtype, device);
  if (settings_.type != RopeSettings::longrope) return;
  tables_.limit = static_cast<int64_t>(settings_.original_positions);
  tables_.far = made(far_memory_, rows, tables_.limit + 1, dtype, device);
}

// Host work, done once: makes a table.
TensorView RopeTable::made(Storage& memory, int64_t rows, int64_t length, DType dtype, DeviceKind device) const {
  memory = Storage(device, rows * settings_.dims * size_of(dtype));
  TensorView view = view_of(memory.data(), dtype, {rows, settings_.dims}, device);
  if (!memory.data()) return view;
  std::vector<double> f = inverse_frequencies(settings_, length);
  int64_t half = settings_.dims / 2;
  visit_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t p = 0; p < rows; ++p)
      for (int64_t j = 0; j < half; ++j) {
        double angle = static_cast<double>(p) * f[static_cast<size_t>(j)];
        T* row = view.row<T>(p);
        if constexpr (sizeof(T) >= 4) {
          row[j] = static_cast<T>(std::cos(angle) * settings_.attention_factor);
          row[j + half] = static_cast<T>(std::sin(angle) * settings_.attention_factor);
        }
      }
  });
  return view;
}

}  // namespace ravine

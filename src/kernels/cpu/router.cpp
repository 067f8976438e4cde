// Choices of routers. Tokens are scored in parallel. One thread assigns rows, in order, which is little work.
// Arithmetic is double, since a few numbers per token decide where the token is computed.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cpu/pack.h"
#include "kernels/cpu/rows.h"

namespace ravine {
namespace {

constexpr int64_t kRunTokens = 64;    // tokens per task
constexpr int64_t kSumTokens = 1024;  // tokens per partial sum
constexpr int64_t kMostChoices = 64;  // choices per token at most; the number of experts has no limit

// The scores of one token, and values derived from them. One object is used for many tokens.
class TokenScores {
 public:
  explicit TokenScores(const Routing& r) : r_(r), z_(size(r.experts)), s_(z_.size()), p_(z_.size()) {}

  void read(const TensorView& logits, int64_t token) {
    convert_row(logits, token);
    const double top = *std::max_element(z_.begin(), z_.end());
    double sum = 0;
    for (size_t e = 0; e < z_.size(); ++e) sum += p_[e] = std::exp(z_[e] - top);
    for (double& p : p_) p /= sum;
    lse_ = top + std::log(sum);
    if (r_.scores == Routing::Scores::softmax)
      s_ = p_;
    else
      for (size_t e = 0; e < z_.size(); ++e) s_[e] = 1 / (1 + std::exp(-z_[e]));
  }
  const std::vector<double>& scores() const { return s_; }
  const std::vector<double>& softmax() const { return p_; }
  double lse() const { return lse_; }
  double sum() const { return std::accumulate(s_.begin(), s_.end(), 0.0); }

  // Returns the weights w of the chosen experts before scaling and normalising.
  void raw_weights(const int32_t* chosen, double* w) const {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < r_.top_k; ++j) {
      w[j] = r_.softmax_after ? z_[size(chosen[j])] : s_[size(chosen[j])];
      top = std::max(top, w[j]);
    }
    if (!r_.softmax_after) return;
    for (int64_t j = 0; j < r_.top_k; ++j) sum += w[j] = std::exp(w[j] - top);
    for (int64_t j = 0; j < r_.top_k; ++j) w[j] /= sum;
  }

 private:
  static size_t size(int64_t n) { return static_cast<size_t>(n); }
  void convert_row(const TensorView& logits, int64_t token) {
    for (size_t e = 0; e < z_.size(); ++e) z_[e] = logits.row<float>(token)[e];
  }
  const Routing& r_;
  std::vector<double> z_, s_, p_;
  double lse_ = 0;
};

// Picks the indices of the largest values; of equal values the first.
class Picker {
 public:
  explicit Picker(const Routing& r) : r_(r), out_(static_cast<size_t>(std::max(r.experts, r.groups))) {}

  // Picks the top_k experts of largest q. limited: only from the best groups.
  void pick(const std::vector<double>& q, bool limited, int32_t* chosen) {
    limited = limited && r_.groups > 1;
    std::fill(out_.begin(), out_.end(), 0);
    if (limited) leave_groups(q);
    for (int64_t j = 0; j < r_.top_k; ++j) {
      chosen[j] = largest(q.data(), r_.experts);
      out_[static_cast<size_t>(chosen[j])] = 1;
    }
  }

 private:
  int32_t largest(const double* q, int64_t n) const {
    int64_t best = -1;
    for (int64_t i = 0; i < n; ++i)
      if (!out_[static_cast<size_t>(i)] && (best < 0 || q[i] > q[best])) best = i;
    return static_cast<int32_t>(best);
  }
  void leave_groups(const std::vector<double>& q) {
    const int64_t size = r_.experts / r_.groups;
    groups_.resize(static_cast<size_t>(r_.groups));
    for (int64_t g = 0; g < r_.groups; ++g) {
      double first = q[static_cast<size_t>(g * size)], second = -std::numeric_limits<double>::infinity();
      for (int64_t i = 1; i < size; ++i) {
        const double v = q[static_cast<size_t>(g * size + i)];
        second = std::max(second, std::min(first, v));
        first = std::max(first, v);
      }
      groups_[static_cast<size_t>(g)] = r_.group_score == Routing::GroupScore::best || size == 1 ? first : first + second;
    }
    std::vector<int32_t> kept;
    for (int64_t i = 0; i < r_.kept_groups; ++i) {
      kept.push_back(largest(groups_.data(), r_.groups));
      out_[static_cast<size_t>(kept.back())] = 1;
    }
    std::fill(out_.begin(), out_.end(), 1);
    for (int32_t g : kept) std::fill_n(out_.begin() + g * size, size, 0);
  }

  const Routing& r_;
  std::vector<char> out_;  // indices that must not be picked (again)
  std::vector<double> groups_;
};

template <class F>
void each_run_of_tokens(int64_t tokens, F&& f) {
  parallel_for(ceil_div(tokens, kRunTokens), [&](int64_t i) { f(i * kRunTokens, std::min(tokens, (i + 1) * kRunTokens)); });
}

void check_router(const char* op, const Routing& r, const TensorView& logits, const TensorView& groups) {
  check_vector(op, "groups", groups, DType::i32, logits.rows());
  require(logits.dtype == DType::f32 && logits.cols() == r.experts, "{}: logits are f32 [N, {}], got {} {}", op, r.experts,
          name(logits.dtype), logits.shape.text());
  require(r.top_k >= 1 && r.top_k <= std::min(kMostChoices, r.experts), "{}: {} choices of {} experts", op, r.top_k, r.experts);
}

// Assigns rows: decides which claims on an expert are kept, and their rows.
class Rows {
 public:
  Rows(const RouterChoice& a, const float* weights)
      : a_(a), weights_(weights), k_(a.routing.top_k), claims_(static_cast<size_t>(a.routing.experts)) {}

  void give_out() {
    const int64_t tokens = a_.logits.rows(), rows = a_.tokens.count(), capacity = expert_capacity(a_.routing, tokens);
    auto* slots = a_.slots.as<int32_t>();
    std::fill_n(slots, tokens * k_, -1);
    std::fill_n(a_.tokens.as<int32_t>(), rows, -1);
    std::fill_n(a_.weights.as<float>(), rows, 0.0f);
    for (int64_t n = 0; n < tokens; ++n)
      for (int64_t j = 0; a_.groups.as<int32_t>()[n] >= 0 && j < k_; ++j)
        claims_[static_cast<size_t>(a_.chosen.as<int32_t>()[n * k_ + j])].push_back(static_cast<int32_t>(n * k_ + j));
    int64_t row = 0;
    for (size_t e = 0; e < claims_.size(); ++e) {
      std::vector<int32_t>& mine = claims_[e];
      a_.claims.as<int32_t>()[e] = static_cast<int32_t>(mine.size());
      a_.offsets.as<int32_t>()[e] = static_cast<int32_t>(row);
      drop(mine, capacity);
      for (size_t i = 0; i < mine.size(); ++i) {
        const int64_t at = row + static_cast<int64_t>(i);
        slots[mine[i]] = static_cast<int32_t>(at);
        a_.tokens.as<int32_t>()[at] = static_cast<int32_t>(mine[i] / k_);
        a_.weights.as<float>()[at] = weights_[mine[i]];
      }
      row += a_.routing.pad_to_capacity ? capacity : static_cast<int64_t>(mine.size());
    }
    a_.offsets.as<int32_t>()[claims_.size()] = static_cast<int32_t>(row);
  }

 private:
  // Keeps at most `capacity` claims, sorted by token.
  void drop(std::vector<int32_t>& claims, int64_t capacity) const {
    if (static_cast<int64_t>(claims.size()) <= capacity) return;
    auto goes_first = [&](int32_t x, int32_t y) {
      if (a_.routing.drop == Drop::rank && x % k_ != y % k_) return x % k_ < y % k_;
      if (a_.routing.drop == Drop::probs && weights_[x] != weights_[y]) return weights_[x] > weights_[y];
      return x < y;
    };
    std::nth_element(claims.begin(), claims.begin() + capacity, claims.end(), goes_first);
    claims.resize(static_cast<size_t>(capacity));
    std::sort(claims.begin(), claims.end());
  }

  const RouterChoice& a_;
  const float* weights_;
  const int64_t k_;
  std::vector<std::vector<int32_t>> claims_;
};

void choose(const RouterChoice& a, void* workspace) {
  const Routing& r = a.routing;
  const int64_t tokens = a.logits.rows(), k = r.top_k, rows = a.tokens.count();
  check_router(a.name, r, a.logits, a.groups);
  check_vector(a.name, "chosen", a.chosen, DType::i32, tokens * k);
  check_vector(a.name, "slots", a.slots, DType::i32, tokens * k);
  check_vector(a.name, "offsets", a.offsets, DType::i32, r.experts + 1);
  check_vector(a.name, "claims", a.claims, DType::i32, r.experts);
  check_vector(a.name, "weights", a.weights, DType::f32, rows);
  if (r.correction) check_vector(a.name, "correction", a.correction, DType::f32, r.experts);
  require(rows >= routed_rows(r, tokens), "{}: {} rows where {} may be asked for", a.name, rows, routed_rows(r, tokens));
  float* weights = Scratch(workspace).floats(tokens * k);
  each_run_of_tokens(tokens, [&](int64_t begin, int64_t end) {
    TokenScores token(r);
    Picker picker(r);
    std::vector<double> q(static_cast<size_t>(r.experts)), w(static_cast<size_t>(k));
    for (int64_t n = begin; n < end; ++n) {
      token.read(a.logits, n);
      q = token.scores();
      for (size_t e = 0; r.correction && e < q.size(); ++e) q[e] += static_cast<double>(a.correction.as<float>()[e]);
      int32_t* chosen = a.chosen.as<int32_t>() + n * k;
      picker.pick(q, true, chosen);
      token.raw_weights(chosen, w.data());
      const double sum = r.normalise ? std::accumulate(w.begin(), w.end(), 0.0) + r.normalise_eps : 1;
      for (int64_t j = 0; j < k; ++j) weights[n * k + j] = static_cast<float>(r.scaling * (w[static_cast<size_t>(j)] / sum));
    }
  });
  Rows(a, weights).give_out();
}

void add_up(const RouterSums& a, void* workspace) {
  const Routing& r = a.routing;
  const int64_t tokens = a.logits.rows(), k = r.top_k, cells = a.scores.count(), runs = ceil_div(tokens, kSumTokens);
  check_router(a.name, r, a.logits, a.groups);
  check_vector(a.name, "chosen", a.chosen, DType::i32, tokens * k);
  check_vector(a.name, "scores", a.scores, DType::f64, cells);
  check_vector(a.name, "counts", a.counts, DType::f64, cells);
  check_vector(a.name, "z", a.z, DType::f64, 1);
  double* partial = Scratch(workspace).doubles(runs * (2 * cells + 1));
  parallel_for(runs, [&](int64_t run) {
    double *scores = partial + run * (2 * cells + 1), *counts = scores + cells, *z = counts + cells;
    std::fill_n(scores, 2 * cells + 1, 0.0);
    TokenScores token(r);
    Picker picker(r);
    std::vector<int32_t> plain(static_cast<size_t>(k));
    for (int64_t n = run * kSumTokens, end = std::min(tokens, n + kSumTokens); n < end; ++n) {
      const int64_t group = a.groups.as<int32_t>()[n];
      if (group < 0) continue;
      token.read(a.logits, n);
      *z += token.lse() * token.lse();
      const double sum = r.scores == Routing::Scores::sigmoid ? token.sum() : 1;
      for (int64_t e = 0; e < r.experts; ++e) scores[group * r.experts + e] += token.scores()[static_cast<size_t>(e)] / sum;
      const int32_t* counted = a.chosen.as<int32_t>() + n * k;
      if (r.correction) picker.pick(token.scores(), false, plain.data()), counted = plain.data();
      for (int64_t j = 0; j < k; ++j) ++counts[group * r.experts + counted[j]];
    }
  });
  auto total = [&](int64_t i) {
    double sum = 0;
    for (int64_t run = 0; run < runs; ++run) sum += partial[run * (2 * cells + 1) + i];
    return sum;
  };
  for (int64_t i = 0; i < cells; ++i) a.scores.as<double>()[i] = total(i), a.counts.as<double>()[i] = total(cells + i);
  *a.z.as<double>() = total(2 * cells);
}

// Computes the gradient of one token's logits.
class TokenBackward {
 public:
  explicit TokenBackward(const RouterBackward& a)
      : a_(a),
        r_(a.routing),
        token_(r_),
        ds_(static_cast<size_t>(r_.experts)),
        dz_(ds_.size()),
        w_(static_cast<size_t>(r_.top_k)),
        dw_(w_.size()) {}

  void run(int64_t n) {
    float* out = a_.dlogits.row<float>(n);
    const int64_t group = a_.groups.as<int32_t>()[n];
    if (group < 0) return void(std::fill_n(out, r_.experts, 0.0f));
    token_.read(a_.logits, n);
    std::fill(ds_.begin(), ds_.end(), 0.0), std::fill(dz_.begin(), dz_.end(), 0.0);
    weights(n);
    if (!a_.slopes.absent()) losses(a_.slopes.as<double>() + group * r_.experts);
    const std::vector<double>&s = token_.scores(), &p = token_.softmax();
    double dot = 0;
    for (size_t e = 0; e < s.size(); ++e) dot += s[e] * ds_[e];
    const bool softmax = r_.scores == Routing::Scores::softmax;
    const double z = 2 * a_.z_slope * token_.lse();
    for (size_t e = 0; e < s.size(); ++e)
      out[e] = static_cast<float>(dz_[e] + s[e] * (softmax ? ds_[e] - dot : ds_[e] * (1 - s[e])) + z * p[e]);
  }

 private:
  // Computes the gradients of the scores (with softmax_after: of the logits) from the gradients of the weights.
  void weights(int64_t n) {
    const int64_t k = r_.top_k;
    const int32_t *chosen = a_.chosen.as<int32_t>() + n * k, *slots = a_.slots.as<int32_t>() + n * k;
    token_.raw_weights(chosen, w_.data());
    for (size_t j = 0; j < w_.size(); ++j)
      dw_[j] = slots[j] < 0 ? 0 : r_.scaling * static_cast<double>(a_.dweights.as<float>()[slots[j]]);
    if (r_.normalise) {
      const double sum = std::accumulate(w_.begin(), w_.end(), 0.0) + r_.normalise_eps,
                   dot = std::inner_product(w_.begin(), w_.end(), dw_.begin(), 0.0);
      for (double& d : dw_) d = (d - dot / sum) / sum;
    }
    const double dot = std::inner_product(w_.begin(), w_.end(), dw_.begin(), 0.0);
    for (size_t j = 0; j < w_.size(); ++j) {
      const auto e = static_cast<size_t>(chosen[j]);
      if (r_.softmax_after)
        dz_[e] += w_[j] * (dw_[j] - dot);
      else
        ds_[e] += dw_[j];
    }
  }
  void losses(const double* slopes) {
    const std::vector<double>& s = token_.scores();
    if (r_.scores == Routing::Scores::softmax) {
      for (size_t e = 0; e < s.size(); ++e) ds_[e] += slopes[e];
      return;
    }
    const double sum = token_.sum(), mean = std::inner_product(s.begin(), s.end(), slopes, 0.0) / sum;
    for (size_t e = 0; e < s.size(); ++e) ds_[e] += (slopes[e] - mean) / sum;
  }

  const RouterBackward& a_;
  const Routing& r_;
  TokenScores token_;
  std::vector<double> ds_, dz_, w_, dw_;
};

void back(const RouterBackward& a, void*) {
  const int64_t tokens = a.logits.rows(), k = a.routing.top_k;
  check_router(a.name, a.routing, a.logits, a.groups);
  check_vector(a.name, "chosen", a.chosen, DType::i32, tokens * k);
  check_vector(a.name, "slots", a.slots, DType::i32, tokens * k);
  check_vector(a.name, "dweights", a.dweights, DType::f32, a.dweights.count());
  if (!a.slopes.absent()) check_vector(a.name, "slopes", a.slopes, DType::f64, a.slopes.count());
  check_rows(a.name, tokens, a.routing.experts, {{"dlogits", &a.dlogits}});
  require(a.dlogits.dtype == DType::f32, "{}: dlogits are f32, got {}", a.name, name(a.dlogits.dtype));
  each_run_of_tokens(tokens, [&](int64_t begin, int64_t end) {
    TokenBackward token(a);
    for (int64_t n = begin; n < end; ++n) token.run(n);
  });
}

}  // namespace

template <>
Kernel<RouterChoice> cpu_kernel() {
  return {choose, [](const RouterChoice& a, int) -> int64_t { return 4 * a.logits.rows() * a.routing.top_k + 128; }};
}

template <>
Kernel<RouterSums> cpu_kernel() {
  return {add_up, [](const RouterSums& a, int) -> int64_t {
            return 8 * ceil_div(a.logits.rows(), kSumTokens) * (2 * a.scores.count() + 1) + 128;
          }};
}

template <>
Kernel<RouterBackward> cpu_kernel() {
  return {back, no_workspace<RouterBackward>};
}

}  // namespace ravine

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/ref/ref.h"

namespace ravine::ref {
namespace {

using Row = std::vector<double>;

double sigmoid_of(double z) { return 1 / (1 + std::exp(-z)); }

Row softmax_of(const Row& z) {
  const double lse = log_sum_exp(z.data(), static_cast<int64_t>(z.size()));
  Row s;
  for (double v : z) s.push_back(std::exp(v - lse));
  return s;
}

Row scores_of(const Routing& r, const Row& z) {
  if (r.scores == Routing::Scores::softmax) return softmax_of(z);
  Row s;
  for (double v : z) s.push_back(sigmoid_of(v));
  return s;
}

// Returns the `count` indices in `from` with the largest q, best first; of equal ones the first.
std::vector<int64_t> best_of(const Row& q, std::vector<int64_t> from, int64_t count) {
  std::vector<int64_t> out;
  while (static_cast<int64_t>(out.size()) < count) {
    auto best = from.begin();
    for (auto it = from.begin(); it != from.end(); ++it)
      if (q[static_cast<size_t>(*it)] > q[static_cast<size_t>(*best)]) best = it;
    out.push_back(*best);
    from.erase(best);
  }
  return out;
}

std::vector<int64_t> first_numbers(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), int64_t{0});
  return out;
}

// Returns the experts in the kept groups, in order.
std::vector<int64_t> left_of(const Routing& r, const Row& q) {
  if (r.groups <= 1) return first_numbers(r.experts);
  const int64_t size = r.experts / r.groups;
  Row groups;
  for (int64_t g = 0; g < r.groups; ++g) {
    Row mine(q.begin() + g * size, q.begin() + (g + 1) * size);
    std::sort(mine.rbegin(), mine.rend());
    groups.push_back(r.group_score == Routing::GroupScore::best || size == 1 ? mine[0] : mine[0] + mine[1]);
  }
  std::vector<int64_t> kept = best_of(groups, first_numbers(r.groups), r.kept_groups), out;
  std::sort(kept.begin(), kept.end());
  for (int64_t g : kept)
    for (int64_t i = 0; i < size; ++i) out.push_back(g * size + i);
  return out;
}

// Returns the weights w of the chosen experts, before any choice is dropped.
Row weights_of(const Routing& r, const Row& z, const Row& s, const std::vector<int64_t>& chosen) {
  Row w;
  for (int64_t e : chosen) w.push_back(r.softmax_after ? z[static_cast<size_t>(e)] : s[static_cast<size_t>(e)]);
  if (r.softmax_after) w = softmax_of(w);
  const double sum = std::accumulate(w.begin(), w.end(), 0.0) + r.normalise_eps;
  for (double& v : w) v = r.scaling * (r.normalise ? v / sum : v);
  return w;
}

struct Claim {
  int64_t token, choice;
  double weight;
};

// Returns the claims of an expert that are kept, in the order of their tokens.
std::vector<Claim> taken(const Routing& r, std::vector<Claim> claims, int64_t capacity) {
  auto before = [&](const Claim& a, const Claim& b) {
    if (r.drop == Drop::rank && a.choice != b.choice) return a.choice < b.choice;
    if (r.drop == Drop::probs && a.weight != b.weight) return a.weight > b.weight;
    return a.token < b.token;
  };
  std::stable_sort(claims.begin(), claims.end(), before);
  if (static_cast<int64_t>(claims.size()) > capacity) claims.resize(static_cast<size_t>(capacity));
  std::sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) { return a.token < b.token; });
  return claims;
}

void choose(const RouterChoice& a, void*) {
  const Routing& r = a.routing;
  const int64_t tokens = a.logits.rows(), experts = r.experts, k = r.top_k, rows = a.tokens.count();
  check(a.name, "logits", a.logits, tokens, experts);
  if (r.correction) check_vector(a.name, "correction", a.correction, experts);
  check_integers(a.name, "groups", a.groups, DType::i32, tokens);
  for (const auto& [what, v, n] : {std::tuple{"chosen", &a.chosen, tokens * k},
                                   {"slots", &a.slots, tokens * k},
                                   {"tokens", &a.tokens, rows},
                                   {"offsets", &a.offsets, experts + 1},
                                   {"claims", &a.claims, experts}})
    check_integers(a.name, what, *v, DType::i32, n);
  check_vector(a.name, "weights", a.weights, rows);
  require(rows >= routed_rows(r, tokens), "{}: {} rows where {} may be asked for", a.name, rows, routed_rows(r, tokens));
  std::vector<std::vector<Claim>> claims(static_cast<size_t>(experts));
  const Row correction = r.correction ? load_row(a.correction) : Row(static_cast<size_t>(experts));
  auto* chosen = a.chosen.as<int32_t>();
  for (int64_t n = 0; n < tokens; ++n) {
    const Row z = load_row(a.logits, n), s = scores_of(r, z);
    Row q = s;
    for (size_t e = 0; e < q.size(); ++e) q[e] += correction[e];
    const std::vector<int64_t> best = best_of(q, left_of(r, q), k);
    const Row w = weights_of(r, z, s, best);
    for (int64_t j = 0; j < k; ++j) {
      const int64_t e = best[static_cast<size_t>(j)];
      chosen[n * k + j] = static_cast<int32_t>(e);
      if (a.groups.as<int32_t>()[n] >= 0) claims[static_cast<size_t>(e)].push_back({n, j, w[static_cast<size_t>(j)]});
    }
  }
  auto *slots = a.slots.as<int32_t>(), *token_of = a.tokens.as<int32_t>(), *offsets = a.offsets.as<int32_t>();
  std::fill(slots, slots + tokens * k, -1);
  std::fill(token_of, token_of + rows, -1);
  Row weights(static_cast<size_t>(rows));
  const int64_t capacity = expert_capacity(r, tokens);
  int64_t row = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const auto& all = claims[static_cast<size_t>(e)];
    a.claims.as<int32_t>()[e] = static_cast<int32_t>(all.size());
    offsets[e] = static_cast<int32_t>(row);
    int64_t next = row;
    for (const Claim& c : taken(r, all, capacity)) {
      slots[c.token * k + c.choice] = static_cast<int32_t>(next);
      token_of[next] = static_cast<int32_t>(c.token);
      weights[static_cast<size_t>(next++)] = c.weight;
    }
    row = r.pad_to_capacity ? row + capacity : next;
  }
  offsets[experts] = static_cast<int32_t>(row);
  store(weights.data(), view_of(a.weights.data, a.weights.dtype, {rows}), 0, 0, rows);
}

// Returns the scores for the losses (sigmoid scores are divided by their sum).
Row even_scores(const Routing& r, const Row& z) {
  Row s = scores_of(r, z);
  if (r.scores == Routing::Scores::softmax) return s;
  const double sum = std::accumulate(s.begin(), s.end(), 0.0);
  for (double& v : s) v /= sum;
  return s;
}

void add_up(const RouterSums& a, void*) {
  const Routing& r = a.routing;
  const int64_t tokens = a.logits.rows(), experts = r.experts, k = r.top_k, groups = a.scores.rows();
  check(a.name, "logits", a.logits, tokens, experts);
  check_integers(a.name, "chosen", a.chosen, DType::i32, tokens * k);
  check_integers(a.name, "groups", a.groups, DType::i32, tokens);
  check(a.name, "scores", a.scores, groups, experts);
  check(a.name, "counts", a.counts, groups, experts);
  Row scores(static_cast<size_t>(groups * experts)), counts(scores.size());
  double squares = 0;
  for (int64_t n = 0; n < tokens; ++n) {
    const int64_t g = a.groups.as<int32_t>()[n];
    if (g < 0) continue;
    const Row z = load_row(a.logits, n), s = even_scores(r, z);
    const double lse = log_sum_exp(z.data(), experts);
    squares += lse * lse;
    for (int64_t e = 0; e < experts; ++e) scores[static_cast<size_t>(g * experts + e)] += s[static_cast<size_t>(e)];
    const std::vector<int64_t> plain = r.correction ? best_of(s, first_numbers(experts), k) : std::vector<int64_t>();
    for (int64_t j = 0; j < k; ++j)
      ++counts[static_cast<size_t>(g * experts +
                                   (r.correction ? plain[static_cast<size_t>(j)] : a.chosen.as<int32_t>()[n * k + j]))];
  }
  for (int64_t g = 0; g < groups; ++g)
    store(scores.data() + g * experts, a.scores, g, 0, experts), store(counts.data() + g * experts, a.counts, g, 0, experts);
  store(&squares, view_of(a.z.data, a.z.dtype, {1}), 0, 0, 1);
}

// Returns dz from ds, through the scores.
Row through_scores(const Routing& r, const Row& s, const Row& ds) {
  Row dz(s.size());
  double dot = 0;
  for (size_t e = 0; e < s.size(); ++e) dot += s[e] * ds[e];
  for (size_t e = 0; e < s.size(); ++e)
    dz[e] = r.scores == Routing::Scores::softmax ? s[e] * (ds[e] - dot) : ds[e] * s[e] * (1 - s[e]);
  return dz;
}

void back(const RouterBackward& a, void*) {
  const Routing& r = a.routing;
  const int64_t tokens = a.logits.rows(), experts = r.experts, k = r.top_k;
  check(a.name, "logits", a.logits, tokens, experts);
  check(a.name, "dlogits", a.dlogits, tokens, experts);
  check_integers(a.name, "chosen", a.chosen, DType::i32, tokens * k);
  check_integers(a.name, "slots", a.slots, DType::i32, tokens * k);
  check_integers(a.name, "groups", a.groups, DType::i32, tokens);
  const TensorView dweights = view_of(a.dweights.data, a.dweights.dtype, {a.dweights.count()});
  each_row(tokens, experts, [&](int64_t n) {
    const int64_t g = a.groups.as<int32_t>()[n];
    if (g < 0) return store_row(Row(static_cast<size_t>(experts)), a.dlogits, n);
    const Row z = load_row(a.logits, n), s = scores_of(r, z);
    Row ds(s.size()), dz(s.size());
    std::vector<int64_t> chosen;
    Row dw;
    for (int64_t j = 0; j < k; ++j) {
      chosen.push_back(a.chosen.as<int32_t>()[n * k + j]);
      const int64_t slot = a.slots.as<int32_t>()[n * k + j];
      dw.push_back(slot < 0 ? 0 : r.scaling * row_weight(dweights, slot));
    }
    Row w;  // before normalising and scaling
    for (int64_t e : chosen) w.push_back(r.softmax_after ? z[static_cast<size_t>(e)] : s[static_cast<size_t>(e)]);
    if (r.softmax_after) w = softmax_of(w);
    if (r.normalise) {
      const double sum = std::accumulate(w.begin(), w.end(), 0.0) + r.normalise_eps;
      double dot = 0;
      for (size_t j = 0; j < w.size(); ++j) dot += dw[j] * w[j];
      for (double& d : dw) d = d / sum - dot / (sum * sum);
    }
    double dot = 0;
    for (size_t j = 0; j < w.size(); ++j) dot += dw[j] * w[j];
    for (size_t j = 0; j < w.size(); ++j) {
      const auto e = static_cast<size_t>(chosen[j]);
      if (r.softmax_after)
        dz[e] += w[j] * (dw[j] - dot);
      else
        ds[e] += dw[j];
    }
    if (!a.slopes.absent()) {
      const Row slopes = load_row(a.slopes, g);
      if (r.scores == Routing::Scores::softmax) {
        for (size_t e = 0; e < s.size(); ++e) ds[e] += slopes[e];
      } else {
        const double sum = std::accumulate(s.begin(), s.end(), 0.0);
        double mean = 0;
        for (size_t e = 0; e < s.size(); ++e) mean += slopes[e] * s[e] / sum;
        for (size_t e = 0; e < s.size(); ++e) ds[e] += (slopes[e] - mean) / sum;
      }
    }
    const Row from_scores = through_scores(r, s, ds), p = softmax_of(z);
    const double lse = log_sum_exp(z.data(), experts);
    for (size_t e = 0; e < s.size(); ++e) dz[e] += from_scores[e] + a.z_slope * 2 * lse * p[e];
    store_row(dz, a.dlogits, n);
  });
}

}  // namespace

template <>
Kernel<RouterChoice> kernel_of() {
  return entry<RouterChoice>(choose);
}
template <>
Kernel<RouterSums> kernel_of() {
  return entry<RouterSums>(add_up);
}
template <>
Kernel<RouterBackward> kernel_of() {
  return entry<RouterBackward>(back);
}

}  // namespace ravine::ref

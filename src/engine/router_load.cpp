#include "engine/router_load.h"

#include <cstddef>
#include <numeric>

namespace ravine {
namespace {

// Calls f(group, tokens) for each group with tokens; returns the number of these groups.
template <class F>
double each_group(const RouterLoad& l, F&& f) {
  double n = 0;
  for (int64_t g = 0; g < l.groups(); ++g)
    if (const double tokens = l.tokens(g); tokens > 0) f(g, tokens), ++n;
  return n;
}

}  // namespace

double RouterLoad::tokens(int64_t group) const {
  const auto begin = counts.begin() + group * experts;
  return std::accumulate(begin, begin + experts, 0.0) / static_cast<double>(top_k);
}

double RouterLoad::tokens() const { return std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(top_k); }

void RouterPool::add(const RouterLoad& l) {
  scores.resize(static_cast<size_t>(l.experts)), counts.resize(scores.size());
  for (size_t i = 0; i < l.scores.size(); ++i) {
    scores[i % scores.size()] += l.scores[i];
    counts[i % counts.size()] += l.counts[i];
  }
  tokens += l.tokens();
}

RouterPool pool_of(const RouterLoads& layers) {
  RouterPool pool;
  for (const auto& [layer, load] : layers) pool.add(load);
  return pool;
}

double pooled_balance(const RouterPool& p) {
  if (p.tokens == 0) return 0;
  const double sum = std::inner_product(p.scores.begin(), p.scores.end(), p.counts.begin(), 0.0);
  return static_cast<double>(p.scores.size()) * sum / (p.tokens * p.tokens);
}

std::vector<double> pooled_slopes(const RouterPool& p, const RouterLoad& layer) {
  std::vector<double> out(layer.scores.size());
  for (size_t i = 0; p.tokens > 0 && i < out.size(); ++i)
    out[i] = static_cast<double>(p.counts.size()) * p.counts[i % p.counts.size()] / (p.tokens * p.tokens);
  return out;
}

double grouped_balance(const RouterLoads& layers) {
  double all = 0;
  for (const auto& [layer, load] : layers) {
    const RouterLoad& l = load;
    double sum = 0;
    const double groups = each_group(l, [&](int64_t g, double tokens) {
      const auto scores = l.scores.begin() + g * l.experts;
      sum += std::inner_product(scores, scores + l.experts, l.counts.begin() + g * l.experts, 0.0) / (tokens * tokens);
    });
    if (groups > 0) all += static_cast<double>(l.experts) / static_cast<double>(l.top_k) * sum / groups;
  }
  return all;
}

std::vector<double> grouped_slopes(const RouterLoads& layers, int64_t layer) {
  const RouterLoad& l = layers.at(layer);
  std::vector<double> out(l.scores.size());
  const double groups = each_group(l, [&](int64_t g, double tokens) {
    for (int64_t i = g * l.experts; i < (g + 1) * l.experts; ++i)
      out[static_cast<size_t>(i)] =
          static_cast<double>(l.experts) / static_cast<double>(l.top_k) * l.counts[static_cast<size_t>(i)] / (tokens * tokens);
  });
  for (double& x : out) x /= groups > 0 ? groups : 1;
  return out;
}

double global_balance(const RouterLoads& layers) {
  double all = 0;
  for (const auto& [layer, l] : layers) {
    const std::vector<double> slopes = global_slopes(layers, layer);
    all += std::inner_product(slopes.begin(), slopes.end(), l.scores.begin(), 0.0);
  }
  return all;
}

std::vector<double> global_slopes(const RouterLoads& layers, int64_t layer) {
  const RouterLoad& l = layers.at(layer);
  std::vector<double> out(l.scores.size());
  const double tokens = l.tokens(), scale = static_cast<double>(l.experts) / static_cast<double>(l.top_k);
  for (size_t i = 0; tokens > 0 && i < out.size(); ++i)
    out[i] = scale * (l.shares.empty() ? l.counts[i] / tokens : l.shares[i]) / tokens;
  return out;
}

double z_loss(const RouterLoads& layers) {
  double sum = 0;
  for (const auto& [layer, l] : layers)
    if (const double tokens = l.tokens(); tokens > 0) sum += l.squares / tokens;
  return sum;
}

}  // namespace ravine

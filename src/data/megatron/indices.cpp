#include "data/megatron/indices.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"

namespace ravine {

EpochPlan plan_epochs(int64_t tokens, int64_t samples, int64_t length, int extra) {
  require(tokens > 0 && length > 0, "epochs: tokens and length are above 0, got {} and {}", tokens, length);
  EpochPlan plan;
  if (samples < 0) return plan;
  const int64_t wanted = add_checked(mul_checked(samples, length), extra);
  plan.epochs = std::max<int64_t>(1, ceil_div(wanted, tokens));
  if (plan.epochs == 1) return plan;
  plan.samples_before_last = (mul_checked(plan.epochs - 1, tokens) - extra) / length;
  const int64_t last = samples - plan.samples_before_last, per_epoch = (tokens - extra) / length;
  plan.separate_last = last < static_cast<int64_t>(0.80 * static_cast<double>(per_epoch));
  return plan;
}

std::vector<int32_t> build_document_index(int64_t first, int64_t last, const EpochPlan& plan, NumpyRandomState& random) {
  const int64_t n = last - first, total = mul_checked(n, plan.epochs);
  if (total > INT32_MAX)
    throw UserError("too many documents", fmt::format("{} documents in {} epochs", n, plan.epochs),
                    fmt::format("an index of documents has at most {} entries", INT32_MAX),
                    "ask for fewer samples or split the data");
  std::vector<int32_t> index(static_cast<size_t>(total));
  for (int64_t e = 0; e < plan.epochs; ++e)
    std::iota(index.begin() + e * n, index.begin() + (e + 1) * n, static_cast<int32_t>(first));
  const std::span all(index);
  const auto apart = static_cast<size_t>(plan.separate_last ? total - n : total);
  random.shuffle(all.first(apart));
  if (plan.separate_last) random.shuffle(all.subspan(apart));
  return index;
}

int64_t sample_count(int64_t tokens, const EpochPlan& plan, int64_t length, int extra, bool partial) {
  const int64_t all = mul_checked(tokens, plan.epochs) - extra;
  if (partial) return static_cast<int64_t>(std::ceil(static_cast<float>(all) / static_cast<float>(length)));
  return all / length;  // towards zero: no tokens give no sample
}

std::vector<int32_t> build_sample_index(std::span<const std::byte> lengths, std::span<const int32_t> documents, int64_t samples,
                                        int64_t length, int extra) {
  std::vector<int32_t> index(static_cast<size_t>(2 * (samples + 1)));
  const std::byte* at = lengths.data();
  const auto n = static_cast<int64_t>(documents.size());
  auto length_of = [&](int64_t d) {
    int32_t value;
    std::memcpy(&value, at + 4 * static_cast<int64_t>(documents[static_cast<size_t>(d)]), 4);
    return static_cast<int64_t>(value);
  };
  // Lengths are read in shuffled order; they are prefetched this far ahead.
  constexpr int64_t kAhead = 32;
  for (int64_t d = 0; d < std::min(kAhead, n); ++d)
    __builtin_prefetch(at + 4 * static_cast<int64_t>(documents[static_cast<size_t>(d)]));
  int64_t document = 0, offset = 0, here = n > 0 ? length_of(0) : 0;
  int32_t* out = index.data() + 2;
  for (int64_t s = 1; s <= samples; ++s) {
    int64_t rest = length + extra - (here - offset);
    while (rest > 0 && document + 1 < n) {
      if (document + kAhead < n)
        __builtin_prefetch(at + 4 * static_cast<int64_t>(documents[static_cast<size_t>(document + kAhead)]));
      here = length_of(++document);
      rest -= here;
    }
    offset = rest > 0 ? here - extra : here + rest - extra;  // after the last document: a partial sample ends with it
    *out++ = static_cast<int32_t>(document);
    *out++ = static_cast<int32_t>(offset);
  }
  return index;
}

std::vector<uint32_t> build_shuffle_index(int64_t first, int64_t total, NumpyRandomState& random) {
  if (total >= int64_t{UINT32_MAX} - 1)
    throw UserError("too many samples", fmt::format("{}", total), fmt::format("an index has less than {}", UINT32_MAX - 1),
                    "ask for fewer samples or longer ones");
  std::vector<uint32_t> index(static_cast<size_t>(total));
  std::iota(index.begin(), index.end(), 0u);
  const std::span all(index);
  random.shuffle(all.first(static_cast<size_t>(first)));
  random.shuffle(all.subspan(static_cast<size_t>(first)));
  return index;
}

BlendIndex build_blend_index(const std::vector<double>& weights, int64_t size) {
  require(!weights.empty() && weights.size() <= INT16_MAX, "blend: 1 to {} datasets, got {}", INT16_MAX, weights.size());
  BlendIndex index;
  index.dataset.reserve(static_cast<size_t>(size));
  index.sample.reserve(static_cast<size_t>(size));
  std::vector<int64_t> taken(weights.size());
  for (int64_t i = 0; i < size; ++i) {
    const double position = std::max(static_cast<double>(i), 1.0);
    size_t best = 0;
    double most = weights[0] * position - static_cast<double>(taken[0]);
    for (size_t k = 1; k < weights.size(); ++k)
      if (double behind = weights[k] * position - static_cast<double>(taken[k]); behind > most) most = behind, best = k;
    index.dataset.push_back(static_cast<int16_t>(best));
    index.sample.push_back(taken[best]++);
  }
  return index;
}

BlendIndex build_exhaustive_blend_index(const std::vector<int64_t>& sizes) {
  require(!sizes.empty() && sizes.size() <= INT16_MAX, "blend: 1 to {} datasets, got {}", INT16_MAX, sizes.size());
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  BlendIndex index;
  std::vector<int64_t> taken(sizes.size());
  std::vector<double> weights;
  for (int64_t s : sizes) weights.push_back(static_cast<double>(s) / static_cast<double>(total));
  for (int64_t i = 0; i < total; ++i) {
    const double position = std::max(static_cast<double>(i), 1.0);
    size_t best = 0;
    double most = -INFINITY;
    for (size_t k = 0; k < sizes.size(); ++k) {
      if (taken[k] == sizes[k]) continue;
      if (double behind = weights[k] * position - static_cast<double>(taken[k]); behind > most) most = behind, best = k;
    }
    index.dataset.push_back(static_cast<int16_t>(best));
    index.sample.push_back(taken[best]++);
  }
  return index;
}

}  // namespace ravine

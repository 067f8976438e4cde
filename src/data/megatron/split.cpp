#include "data/megatron/split.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace ravine {

namespace {

// numpy's pairwise_sum: a plain sum below eight values, eight running sums up to 128, halves above.
double pairwise(const double* a, size_t n) {
  if (n < 8) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += a[i];
    return sum;
  }
  if (n > 128) {
    size_t half = n / 2;
    half -= half % 8;
    return pairwise(a, half) + pairwise(a + half, n - half);
  }
  double r[8];
  for (size_t k = 0; k < 8; ++k) r[k] = a[k];
  size_t i = 8;
  for (; i < n - n % 8; i += 8)
    for (size_t k = 0; k < 8; ++k) r[k] += a[i + k];
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < n; ++i) sum += a[i];
  return sum;
}

int64_t rounded(double x) { return static_cast<int64_t>(std::nearbyint(x)); }  // half to even, as in Python

}  // namespace

const char* name(MegatronSplit s) {
  switch (s) {
    case MegatronSplit::train:
      return "train";
    case MegatronSplit::valid:
      return "valid";
    case MegatronSplit::test:
      return "test";
  }
  fail("split: train, valid or test, got {}", static_cast<int>(s));
}

double numpy_sum(const std::vector<double>& values) { return pairwise(values.data(), values.size()); }

std::vector<double> normalized(const std::vector<double>& values) {
  const double sum = numpy_sum(values);
  std::vector<double> out = values;
  for (double& v : out) v /= sum;
  return out;
}

SplitString::SplitString(const std::string& text) : text_(text) {
  auto refuse = [&](const std::string& rule) {
    throw UserError("wrong split", fmt::format("'{}'", text), rule,
                    "write for example 969,30,1: the shares of train, valid and test");
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_not_of(".0123456789", at), text.size());
    if (end == at) {
      if (text[at] == '-') refuse("shares are not negative");
      ++at;
      continue;
    }
    double value = 0;
    auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, value);
    if (error != std::errc() || rest != text.data() + end)
      refuse(fmt::format("'{}' is not a number", text.substr(at, end - at)));
    weights_.push_back(value);
    at = end;
  }
  if (weights_.empty() || weights_.size() > 3) refuse(fmt::format("one to three numbers, got {}", weights_.size()));
  weights_.resize(3, 0.0);
  if (!(numpy_sum(weights_) > 0)) refuse("one share at least must be above 0");
  weights_ = normalized(weights_);
}

std::optional<std::array<double, 2>> SplitString::shares(MegatronSplit s) const {
  double begin = 0;
  for (int i = 0; i < static_cast<int>(s); ++i) begin += weights_[static_cast<size_t>(i)];
  const double end = begin + weights_[static_cast<size_t>(s)];
  if (end <= begin) return std::nullopt;
  return std::array<double, 2>{begin, end};
}

std::optional<SplitRange> SplitString::range(MegatronSplit s, int64_t sequences, MegatronOrder order) const {
  const auto part = shares(s);
  if (!part) return std::nullopt;
  const auto n = static_cast<double>(sequences);
  if (order == MegatronOrder::core) return SplitRange{rounded((*part)[0] * n), rounded((*part)[1] * n)};
  int64_t border[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < 3; ++i) border[i + 1] = border[i] + rounded(weights_[i] * n);
  const int64_t excess = border[3] - sequences;
  for (size_t i = 1; i < 4; ++i) border[i] -= excess;
  const auto i = static_cast<size_t>(s);
  if (border[i] < 0 || border[i + 1] < border[i])
    throw UserError("split does not fit the data", fmt::format("'{}'", text_),
                    fmt::format("the 2023 rule of rounding gives {} the sequences {} to {} of {}", name(s), border[i],
                                border[i + 1], sequences),
                    "use data.order=megatron or another split");
  return SplitRange{border[i], border[i + 1]};
}

}  // namespace ravine

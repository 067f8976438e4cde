// Parts of the rules behind error_bound: the call, figures of its tensors, and bounds of sums and products. Only
// bound_table*.cpp include it.
#pragma once
#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <unordered_map>

#include "kernels/error_bounds.h"

namespace ravine::bound_rules {

inline constexpr double kFew = 8;        // for the roundings of a handful of operations per element
inline constexpr double kFunction = 16;  // the same with exp, log or tanh among them
// Factor of relative errors: how many times larger than the mean the error of the elements that matter may be.
inline constexpr double kUnnormalised = 4;

inline double root(double x) { return std::sqrt(std::max(0.0, x)); }
inline double summed(double terms) { return 1 + root(terms) / 2; }
// Returns the factor of the error of a sum over `terms` tokens. Such sums run in chunks of at most 1024 tokens.
inline double summed_tokens(double terms) { return terms <= 1024 ? summed(terms) : summed(1024) + summed(terms / 1024); }

// Returns half of the smallest number of a type: the largest value that rounds to zero.
inline double lost_below(DType type) {
  return type == DType::f16 ? 0x1p-25 : type == DType::bf16 ? 0x1p-134 : type == DType::f32 ? 0x1p-150 : 0;
}

// The tensors of one kernel call, and the output tensor whose error bound is computed. All figures of an absent tensor
// are 0.
struct Call {
  std::span<const CallTensor> all;
  const CallTensor& out;
  double v = 0;

  Call(std::span<const CallTensor> tensors, const CallTensor& written) : all(tensors), out(written) {
    const bool wide =
        std::all_of(all.begin(), all.end(), [](const CallTensor& t) { return !is_float(t.type) || t.type == DType::f64; });
    v = rounding_of(wide ? DType::f64 : DType::f32);
  }
  const CallTensor& find(std::string_view name, bool output) const {
    static const CallTensor absent{.type = DType::f64};
    for (const CallTensor& t : all)
      if (t.output == output && t.name == name) return t;
    return absent;
  }
  const CallTensor& in(std::string_view name) const { return find(name, false); }
  const CallTensor& old() const { return in(out.name); }  // the value that the result is added to
  bool is(std::string_view name) const { return out.name == name; }
  double stored() const {
    return rounding_of(out.type) * out.norm + lost_below(out.type) * root(static_cast<double>(out.count));
  }
};

inline double n(const CallTensor& t) { return static_cast<double>(t.count); }
inline double columns(const CallTensor& t) { return static_cast<double>(std::max<int64_t>(1, t.columns)); }
inline double rows(const CallTensor& t) { return n(t) / columns(t); }
inline double off(double derivative, const CallTensor& t) { return t.off > 0 && derivative > 0 ? derivative * t.off : 0; }
inline double relative(const CallTensor& t) { return t.off > 0 ? t.off / std::max(t.norm, 1e-300) : 0; }
inline double rms(const CallTensor& t) { return t.count > 0 ? t.norm / root(n(t)) : 0; }
inline double longest_row(const CallTensor& t, double length) { return std::min(t.norm, root(length) * t.largest); }
// Returns the ratio of the largest error of an element to the mean error, as estimated from the values of t.
inline double spread(const CallTensor& t) { return t.norm > 0 ? std::min(root(n(t)), t.largest / rms(t)) : 1; }
// Returns a bound of |a b| for an elementwise product.
inline double product(const CallTensor& a, const CallTensor& b) { return std::min(a.norm * b.largest, a.largest * b.norm); }
inline double or_one(const CallTensor& t) { return t.count > 0 ? t.largest : 1; }

// A function that returns the error bound of one tensor that a call of its kernel writes.
using Rule = ErrorBound (*)(const Call& c);
using RuleTable = std::unordered_map<std::string_view, Rule>;  // by kernel

const RuleTable& update_rules();  // kernels of kernels/updates.h

}  // namespace ravine::bound_rules

#include "step/nan_observer.h"

#include <fmt/format.h>

#include <cmath>

namespace ravine {

namespace {

// Host work, after a failure. Returns "tensor 'out', row 5, column 7: nan" for the first element that is not finite; ""
// if all are finite.
std::string first_bad(const NamedView& t) {
  std::string found;
  if (!is_float(t.view.dtype) || !t.view.data) return found;
  visit_float(t.view.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t r = 0; r < t.view.rows(); ++r)
      for (int64_t c = 0; c < t.view.cols(); ++c) {
        double x;
        if constexpr (sizeof(T) == 2)
          x = static_cast<float>(t.view.row<T>(r)[c]);
        else
          x = t.view.row<T>(r)[c];
        bool empty_row = std::string_view(t.name) == "lse" && x == -INFINITY;  // rows that see no key
        if (std::isfinite(x) || empty_row) continue;
        found = fmt::format("tensor '{}', row {}, column {}: {}", t.name, r, c, x);
        return;
      }
  });
  return found;
}

}  // namespace

void NanObserver::after(const CallInfo& call) {
  if (!found_.empty()) return;
  for (const NamedView& t : call.tensors) {
    if (t.access == Access::read) continue;
    const std::string bad = first_bad(t);
    if (bad.empty()) continue;
    found_ = fmt::format("first: {} at {} ({}), {}", call.op, call.path, name(call.phase), bad);
    for (const NamedView& input : call.tensors)  // no earlier call wrote one, so a bad input was bad before the step
      if (input.access == Access::read)
        if (const std::string cause = first_bad(input); !cause.empty()) found_ += "; its input has it already, " + cause;
    return;
  }
}

}  // namespace ravine

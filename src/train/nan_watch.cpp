#include "train/nan_watch.h"

#include <fmt/format.h>

#include <cmath>

namespace ravine {

void NanWatch::after(const CallInfo& call) {
  if (!found_.empty()) return;
  for (const NamedView& t : call.tensors) {
    if (t.access == Access::read || !is_float(t.view.dtype) || !t.view.data) continue;
    visit_float(t.view.dtype, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t r = 0; r < t.view.rows() && found_.empty(); ++r)
        for (int64_t c = 0; c < t.view.cols(); ++c) {
          double x;
          if constexpr (sizeof(T) == 2)
            x = static_cast<float>(t.view.row<T>(r)[c]);
          else
            x = t.view.row<T>(r)[c];
          bool empty_row = std::string_view(t.name) == "lse" && x == -INFINITY;  // rows that see no key
          if (std::isfinite(x) || empty_row) continue;
          found_ = fmt::format("first: {} at {} ({}), tensor '{}', row {}, column {}: {}", call.op, call.path, name(call.phase), t.name, r, c, x);
          return;
        }
    });
    if (!found_.empty()) return;
  }
}

}  // namespace ravine

#include "probe/reorder.h"

#include <string_view>

#include "base/half.h"
#include "base/text.h"

namespace ravine {

void ReorderSum::after(const CallInfo& call) {
  if (done_ || call.phase != Phase::forward || std::string_view(call.op) != "matmul" ||
      !glob_match(path_, std::string(call.path)))
    return;
  const TensorView *a = nullptr, *b = nullptr, *out = nullptr;
  for (const NamedView& t : call.tensors) {
    std::string_view name = t.name;
    (name == "a" ? a : name == "b" ? b : name == "out" ? out : a) = &t.view;
    if (name == "bias") return;
  }
  met_ = true;
  visit_float(a->dtype, [&](auto operand) {
    visit_float(out->dtype, [&](auto result) {
      using In = decltype(operand);
      using Out = decltype(result);
      for (int64_t r = 0; r < out->rows() && !done_; ++r)
        for (int64_t c = 0; c < out->cols() && !done_; ++c) {
          float sum = 0;
          for (int64_t k = a->cols() - 1; k >= 0; --k)
            sum += static_cast<float>(a->row<In>(r)[k]) * static_cast<float>(b->row<In>(c)[k]);
          Out& was = out->row<Out>(r)[c];
          Out now = static_cast<Out>(sum);
          done_ = static_cast<float>(now) != static_cast<float>(was);
          if (done_) was = now;
        }
    });
  });
}

}  // namespace ravine

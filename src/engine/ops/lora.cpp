#include "engine/ops/lora.h"

#include <memory>
#include <utility>

#include "engine/ops/lora_products.h"

namespace ravine {
namespace {

// Returns t in the compute type, which products read.
Tensor for_products(Ctx& c, const Tensor& t) {
  if (t.dtype() == c.types().compute) return t;
  Tensor out = c.empty({t.rows(), t.cols()}, c.types().compute);
  c.call(Cast{t.view(), out.view()});
  return out;
}

}  // namespace

Tensor low_rank_up(Ctx& c, const Tensor& h, Param& b) {
  const Tensor x = for_products(c, h);
  Tensor y = c.empty({h.rows(), b.shape[0]}, c.types().residual);
  c.call(Matmul{.a = x.view(), .b = c.store().value(b), .out = y.view(), .trans_b = true});
  if (!c.recording()) return y;
  const auto narrow = std::make_shared<Tensor>();  // from dx to dw
  c.record(
      "lora", {y.ref()},
      [narrow, &b, hr = h.ref(), yr = y.ref()](Ctx& c) {
        *narrow = for_products(c, c.grads().get(yr));
        bool accumulate = false;
        Tensor dh = c.grads().add_to(hr, accumulate);
        c.call(Matmul{.a = narrow->view(), .b = c.store().value(b), .out = dh.view(), .accumulate = accumulate});
      },
      [narrow, &b, saved = c.save(x)](Ctx& c) {
        const Tensor dy = std::exchange(*narrow, Tensor());
        bool accumulate = false;
        const TensorView g = c.grad_store().add_to_grad(b, accumulate);
        if (!g.absent())
          c.call(Matmul{.a = dy.view(),
                        .b = saved.get(c).view(),
                        .out = g,
                        .trans_a = true,
                        .accumulate = accumulate,
                        .tokens_reduced = true});
      });
  return y;
}

void lora_of_rows(Ctx& c, const TensorView& x, const TensorView& y, std::span<Param* const> weights, Split split) {
  for (const AdapterRows& rows : c.batch().adapters) {
    const LoraAdapters* adapters = rows.adapters->adapters_of(*weights[0]);
    if (!adapters) continue;
    require(!c.recording() && x.rows() == c.batch().tokens, "lora: adapters by row, of {} rows of {}", x.rows(),
            c.batch().tokens);
    const LoraProducts l(*adapters, *rows.weights, weights, split);
    const Tensor h = l.down(c, x.row_range(rows.begin, rows.count));
    l.add_up(c, h.view(), y.row_range(rows.begin, rows.count));
  }
}

void lora(Ctx& c, const Tensor& x, const Tensor& y, const LoraAdapters& adapters, std::span<Param* const> weights,
          Split split) {
  const LoraProducts l(adapters, c.store(), weights, split);
  Tensor h = l.down(c, x.view());
  l.add_up(c, h.view(), y.view());
  if (!c.recording()) return;
  Saved saved_x = c.save(x), saved_h = c.save(h);
  const auto u = std::make_shared<Tensor>();  // from dx to dw
  c.record(
      "lora", {},
      [l, u, xr = x.ref(), yr = y.ref()](Ctx& c) {
        bool accumulate = false;
        *u = l.back(c, c.grads().get(yr).view());
        Tensor dx = c.grads().add_to(xr, accumulate);
        l.add_dx(c, u->view(), dx.view(), accumulate);
      },
      [l, u, saved_x, saved_h, yr = y.ref()](Ctx& c) {
        Tensor dy = c.grads().get(yr), back = std::exchange(*u, Tensor());
        l.add_da(c, (l.split() == Split::columns ? LoraProducts::whole(c, back) : back).view(), saved_x.get(c).view());
        const Tensor h = saved_h.get(c);
        l.add_db(c, dy.view(), (l.split() == Split::rows ? LoraProducts::whole(c, h) : h).view());
      });
}

}  // namespace ravine

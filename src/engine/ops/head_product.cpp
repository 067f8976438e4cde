#include "engine/ops/head_product.h"

#include "engine/ops/lora_products.h"
#include "engine/ops/soft_cap.h"
#include "engine/ops/unit_rows.h"

namespace ravine {

Tensor head_product(Ctx& c, const TensorView& x, const LinearParams& head, bool unit, double cap) {
  const Param& weight = *head.weights[0];
  Tensor unit_weight = unit ? unit_rows(c, weight) : Tensor();
  const TensorView w = unit ? unit_weight.view() : c.store().value(weight);
  Tensor y = c.empty({x.rows(), w.rows()}, c.types().stat);
  c.call(Matmul{.a = x, .b = w, .out = y.view(), .trans_b = true});
  if (head.adapters) LoraProducts(*head.adapters, c.store(), {}, Split::columns).add_logits(c, x, y.view());
  for (const AdapterRows& rows : c.batch().adapters)
    if (const LoraAdapters* adapters = rows.adapters->adapters_of(weight); adapters && rows.logit_count > 0)
      LoraProducts(*adapters, *rows.weights, {}, Split::columns)
          .add_logits(c, x.row_range(rows.logit_begin, rows.logit_count),
                      y.view().row_range(rows.logit_begin, rows.logit_count));
  soft_cap(c, y.view(), cap);
  return y;
}

}  // namespace ravine

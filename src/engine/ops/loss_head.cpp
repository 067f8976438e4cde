#include "engine/ops/loss_head.h"

#include "engine/ops/soft_cap.h"
#include "engine/ops/unit_rows.h"
#include "engine/ops/vocabulary_parallel.h"

namespace ravine {
namespace {

// Fused: one kernel. Unfused: all logits, cross-entropy, two products.
void pass(Ctx& c, const TensorView& x, const TensorView& w, const TensorView& losses, const TensorView& row_weights,
          const TensorView& dx, const TensorView& dweight, bool accumulate, double cap) {
  const Batch& b = c.batch();
  if (c.has<LossHead>() && c.fused("loss_head")) {
    c.call(LossHead{.x = x,
                    .weight = w,
                    .labels = b.labels,
                    .losses = losses,
                    .dx = dx,
                    .dweight = dweight,
                    .grad_scale = b.grad_scale,
                    .accumulate = accumulate,
                    .cap = cap,
                    .row_weights = row_weights});
  } else {
    Tensor y = c.empty({x.rows(), w.rows()}, c.types().stat);
    c.call(Matmul{.a = x, .b = w, .out = y.view(), .trans_b = true});
    soft_cap(c, y.view(), cap);
    bool backward = !dx.absent() || !dweight.absent();
    Tensor dy = cap == 0 || !backward
                    ? y
                    : c.empty({x.rows(), w.rows()}, y.dtype());  // the slope of the cap is computed from capped logits
    c.call(CrossEntropy{.logits = y.view(),
                        .labels = b.labels,
                        .losses = losses,
                        .dlogits = backward ? dy.view() : TensorView{},
                        .grad_scale = b.grad_scale,
                        .row_weights = row_weights});
    if (backward && cap != 0) c.call(SoftCapBackward{.y = y.view(), .dy = dy.view(), .dx = dy.view(), .cap = cap});
    y = std::move(dy);
    if (backward && x.dtype != y.dtype()) {
      Tensor narrow = c.empty({x.rows(), w.rows()}, x.dtype);
      c.call(Cast{y.view(), narrow.view()});
      y = narrow;
    }
    if (!dx.absent()) c.call(Matmul{.a = y.view(), .b = w, .out = dx});
    if (!dweight.absent())
      c.call(Matmul{.a = y.view(), .b = x, .out = dweight, .trans_a = true, .accumulate = accumulate, .tokens_reduced = true});
  }
}

void run(Ctx& c, const TensorView& x, const TensorView& w, const TensorView& dx, const TensorView& dweight, bool accumulate,
         double cap) {
  const Batch& b = c.batch();
  Tensor losses = c.empty({b.tokens}, DType::f64), weights;
  const bool backward = !dx.absent() || !dweight.absent();
  if (b.sequence_loss) {
    pass(c, x, w, losses.view(), {}, {}, {}, false, cap);
    if (backward) weights = c.empty({b.tokens}, DType::f64);
    b.sequence_loss->weigh(c, losses.view(), weights.view());
    if (!backward) return;
  }
  pass(c, x, w, losses.view(), weights.view(), dx, dweight, accumulate, cap);
  if (!b.sequence_loss) c.add_sum(StepSum::loss, losses.view());
}

// The same with the weight's rows scaled to length 1; the gradient passes through the scaling.
void run_unit(Ctx& c, const TensorView& x, const Param& weight, const TensorView& dx, const TensorView& dweight,
              bool accumulate, double cap) {
  Tensor w = unit_rows(c, weight), dw;
  if (!dweight.absent()) dw = c.empty({w.rows(), w.cols()}, dweight.dtype);
  run(c, x, w.view(), dx, dw.view(), false, cap);
  w = Tensor();
  if (dw) c.call(UnitRowsBackward{.dout = dw.view(), .x = c.store().master(weight), .dx = dweight, .accumulate = accumulate});
}

}  // namespace

void loss_head(Ctx& c, const Tensor& x, const LinearParams& head, bool unit_rows, double cap) {
  require(!c.batch().labels.absent(), "loss_head: the batch has no labels");
  const bool adapted = head.adapters != nullptr;
  require(!adapted || !unit_rows, "loss_head: an adapter beside rows of length 1");
  if (c.group(Axis::tensor).size() > 1 || adapted) return loss_head_parallel(c, x, head, unit_rows, cap);
  const Param& weight = *head.weights[0];
  auto run = [&weight, unit_rows, cap](Ctx& c, const TensorView& x, const TensorView& dx, const TensorView& dweight,
                                       bool accumulate) {
    if (unit_rows)
      run_unit(c, x, weight, dx, dweight, accumulate, cap);
    else
      ravine::run(c, x, c.store().value(weight), dx, dweight, accumulate, cap);
  };
  if (!c.recording()) return run(c, x.view(), {}, {}, false);
  c.record("loss_head", {}, [saved = c.save(x), &weight, run, xr = x.ref()](Ctx& c) {
    bool accumulate = false, more = false;
    TensorView dweight = c.grad_store().add_to_grad(weight, accumulate);
    Tensor dx = c.grads().add_to(xr, more);
    require(!more, "loss_head: its input must be used by it only");
    run(c, saved.get(c).view(), dx.view(), dweight, accumulate);
  });
}

}  // namespace ravine

// The shared code of swiglu and geglu: a gated product whose gate and factor lie side by side in one tensor.
#pragma once
#include "engine/ctx.h"

namespace ravine {

// Returns activation(gate) * up, [N, F] in the compute type. gate_up [N, 2F] holds gate and up side by side. Forward
// and Backward are the argument types of the kernels. Unfused: the activation of the gate, rounded to the compute type,
// then a product; backward likewise. An Error in the backward pass if another op reads gate_up.
template <class Forward, class Backward>
Tensor gated(Ctx& c, const Tensor& gate_up) {
  int64_t width = div_exact(gate_up.cols(), 2);
  auto forward = [width](Ctx& c, const Tensor& gu) {
    Tensor out = c.empty({gu.rows(), width}, c.types().compute);
    const TensorView gate = gu.view().columns(0, width), up = gu.view().columns(width, width);
    if (c.fused(Forward::name)) {
      c.call(Forward{.gate = gate, .up = up, .out = out.view()});
    } else {
      c.call(Forward{.gate = gate, .up = {}, .out = out.view()});
      c.call(Multiply{.a = out.view(), .b = up, .out = out.view()});
    }
    return out;
  };
  Tensor out = forward(c, gate_up);
  if (!c.recording()) return out;

  Saved saved = c.save(gate_up);
  out.set_rebuild([saved, forward](Ctx& c) { return forward(c, saved.get(c)); });
  c.record(Forward::name, {out.ref()}, [saved, width, gr = gate_up.ref(), outr = out.ref()](Ctx& c) {
    bool accumulate = false;
    Tensor gu = saved.get(c), dout = c.grads().get(outr), d = c.grads().add_to(gr, accumulate);
    require(!accumulate, "{}: gate and up must be used by it only", Forward::name);
    const TensorView gate = gu.view().columns(0, width), up = gu.view().columns(width, width);
    const TensorView dgate = d.view().columns(0, width), dup = d.view().columns(width, width);
    if (c.fused(Forward::name)) {
      c.call(Backward{.gate = gate, .up = up, .dout = dout.view(), .dgate = dgate, .dup = dup});
      return;
    }
    Tensor active = c.empty({gu.rows(), width}, c.types().compute), dactive = c.empty({gu.rows(), width}, c.types().compute);
    c.call(Forward{.gate = gate, .up = {}, .out = active.view()});
    c.call(Multiply{.a = dout.view(), .b = up, .out = dactive.view()});
    c.call(Multiply{.a = dout.view(), .b = active.view(), .out = dup});
    c.call(Backward{.gate = gate, .up = {}, .dout = dactive.view(), .dgate = dgate, .dup = {}});
  });
  return out;
}

}  // namespace ravine

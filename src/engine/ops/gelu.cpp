#include "engine/ops/gelu.h"

namespace ravine {

Tensor gelu(Ctx& c, const Tensor& x, GeluForm form) {
  auto forward = [form](Ctx& c, const Tensor& x) {
    Tensor out = c.empty({x.rows(), x.cols()}, c.types().compute);
    c.call(GeluForward{.x = x.view(), .out = out.view(), .form = form});
    return out;
  };
  Tensor out = forward(c, x);
  if (!c.recording()) return out;

  Saved saved = c.save(x);
  out.set_rebuild([saved, forward](Ctx& c) { return forward(c, saved.get(c)); });
  c.record("gelu", {out.ref()}, [saved, form, xr = x.ref(), outr = out.ref()](Ctx& c) {
    bool accumulate = false;
    Tensor x = saved.get(c), dout = c.grads().get(outr), dx = c.grads().add_to(xr, accumulate);
    require(!accumulate, "gelu: its input must be used by it only");
    c.call(GeluBackward{.x = x.view(), .dout = dout.view(), .dx = dx.view(), .form = form});
  });
  return out;
}

}  // namespace ravine

#include "engine/ops/latent_keys.h"

namespace ravine {

LatentKeys latent_keys(Ctx& c, const Tensor& kv, const Tensor& rope, int64_t heads, int64_t value_size) {
  const int64_t rows = kv.rows(), values = heads * value_size;
  LatentKeys out{c.empty({rows, kv.cols() - values + heads * rope.cols()}, kv.dtype()), c.empty({rows, values}, kv.dtype())};
  c.call(LatentKeysForward{
      .kv = kv.view(), .rope = rope.view(), .keys = out.keys.view(), .values = out.values.view(), .heads = heads});
  c.record("latent_keys", {out.keys.ref(), out.values.ref()},
           [heads, kvr = kv.ref(), rr = rope.ref(), kr = out.keys.ref(), vr = out.values.ref()](Ctx& c) {
             bool a = false, b = false;
             Tensor dkeys = c.grads().take(kr), dvalues = c.grads().take(vr);
             Tensor dkv = c.grads().add_to(kvr, a), drope = c.grads().add_to(rr, b);
             require(!a && !b, "latent_keys: kv and rope must be used by it only");
             c.call(LatentKeysBackward{
                 .dkeys = dkeys.view(), .dvalues = dvalues.view(), .dkv = dkv.view(), .drope = drope.view(), .heads = heads});
           });
  return out;
}

}  // namespace ravine

#include "engine/ops/joined.h"

namespace ravine {
namespace {

bool taken_apart(const Ctx& c, Join join) {
  switch (join) {
    case Join::qkv:
      return !c.fused("qkv");
    case Join::gate_up:
      return !c.fused("gate_up");
    case Join::single:
    case Join::latents:
      return false;
  }
  fail("joined: unknown join");
}

}  // namespace

TensorView joined(const WeightSource& store, TensorView first, std::span<Param* const> params) {
  if (first.absent()) return first;
  int64_t rows = 0;
  for (const Param* p : params) rows += store.shape(*p)[0];
  first.shape[0] = rows;
  return first;
}

TensorView joined_grad(Ctx& c, std::span<Param* const> params, bool& accumulate) {
  TensorView first;
  for (size_t i = 0; i < params.size(); ++i) {
    bool a = false;
    TensorView g = c.grad_store().add_to_grad(*params[i], a);
    if (i == 0) first = g, accumulate = a;
    require(a == accumulate, "linear: joined gradients of '{}' were not written together", params[i]->name);
  }
  if (params.size() == 1 || first.absent()) return first;
  return joined(c.store(), first, params);
}

JoinedWeights::JoinedWeights(Ctx& c, std::span<Param* const> weights, Join join) : weights_(weights) {
  const WeightSource& store = c.store();
  for (const Param* p : weights) rows_ += store.shape(*p)[0];
  cols_ = store.shape(*weights[0])[1];
  const bool blocks = !store.blocks(*weights[0]).absent();
  if (!blocks) plain_ = joined(store, store.value(*weights[0]), weights);
  whole_ = weights.size() == 1 || (!blocks && !taken_apart(c, join));
}

}  // namespace ravine

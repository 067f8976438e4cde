#include "parallel/inference_store.h"

namespace ravine {
namespace {
DType held_in(const Types& types, const Param& p) { return p.use == Use::vector ? types.master : types.compute; }

[[noreturn]] void no_training() { fail("inference store: it holds no gradients and no moments"); }
}  // namespace

InferenceStore::InferenceStore(ParamSet& params, const Types& types, DeviceKind device)
    : types_(types), places_(params.params().size(), 0) {
  for (const Unit& unit : params.units()) {
    int64_t bytes = 0;
    int join = -1;  // of the parameter before
    for (const Param* p : unit.params) {
      if (p->tied) continue;
      if (p->join != join || join == 0) bytes = round_up(bytes, kAlignment);
      join = p->join;
      places_[p->index] = bytes;
      bytes += p->shape.count() * size_of(held_in(types, *p));
    }
    units_.emplace_back(device, bytes);
  }
}

TensorView InferenceStore::of(const Param& param) const {
  const Param& p = param.tied ? *param.tied : param;
  const Storage& s = units_[p.unit->index];
  return view_of(s.data() ? s.data() + places_[p.index] : nullptr, held_in(types_, p), p.shape, s.device());
}

int64_t InferenceStore::weight_bytes() const {
  int64_t n = 0;
  for (const Storage& s : units_) n += s.bytes();
  return n;
}

void InferenceStore::open_grads(Ctx&, const Unit&) { no_training(); }
void InferenceStore::close_grads(Ctx&, const Unit&) { no_training(); }
TensorView InferenceStore::add_to_grad(const Param&, bool&) { no_training(); }
void InferenceStore::finish_grads(Ctx&) { no_training(); }
TensorView InferenceStore::flat_master(size_t) const { no_training(); }
TensorView InferenceStore::flat_copy(size_t) const { no_training(); }

}  // namespace ravine

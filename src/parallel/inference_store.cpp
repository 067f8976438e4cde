#include "parallel/inference_store.h"

#include "engine/flat.h"

namespace ravine {
namespace {
DType held_in(const Types& types, const Param& p) {
  if (p.policy.kept == Kept::bf16) return DType::bf16;
  return p.use == Use::vector || p.use == Use::wide_matrix ? types.master : types.compute;
}
}  // namespace

InferenceStore::InferenceStore(ParamSet& params, const Types& types, DeviceKind device, const Ranks& ranks,
                               const std::vector<int>& stages, const std::function<bool(const Param&)>& wanted)
    : params_(params),
      types_(types),
      tensor_rank_(ranks.at().tensor),
      tensor_size_(ranks.mesh().tensor),
      locations_(params.params().size()) {
  auto stage = [&](const Unit* u) { return stages.empty() ? ranks.at().pipeline : stages[u->index]; };
  for (const Unit& unit : params.units()) {
    int64_t bytes = 0;
    int join = -1;  // of the previous parameter
    for (const Param* p : unit.params) {
      if (stage(&unit) != ranks.at().pipeline) continue;
      const Param& held = p->tied ? *p->tied : *p;
      if (p->tied && stage(held.unit) == stage(&unit)) continue;
      if (wanted && !wanted(held)) continue;
      if (p->join != join || join == 0) bytes = round_up(bytes, kAlignment);
      join = p->join;
      locations_[held.index] = {true, unit.index, bytes, local_shape(held, tensor_size_)};
      bytes += locations_[held.index].shape.count() * size_of(held_in(types, held));
    }
    units_.emplace_back(device, bytes);
  }
}

TensorView InferenceStore::of(const Param& param) const {
  const Param& p = param.tied ? *param.tied : param;
  const Location& at = locations_[p.index];
  require(at.here, "store: '{}' lives on another pipeline stage", p.name);
  const Storage& s = units_[at.unit];
  return view_of(s.data() ? s.data() + at.byte : nullptr, held_in(types_, p), at.shape, s.device());
}

std::vector<ParamBox> InferenceStore::boxes() const {
  std::vector<ParamBox> out;
  for (const Param& p : params_.params())
    if (locations_[p.index].here) out.push_back({&p, local_begin(p, tensor_rank_, tensor_size_), of(p)});
  return out;
}

std::vector<const Param*> InferenceStore::params_in(const TensorView& v) const {
  std::vector<const Param*> out;
  if (!v.data || v.count() == 0) return out;
  const auto* begin = static_cast<const std::byte*>(v.data);
  const auto* end = begin + ((v.rows() - 1) * v.stride + v.cols()) * size_of(v.dtype);
  for (const Param& p : params_.params()) {
    if (!locations_[p.index].here) continue;
    const TensorView held = of(p);
    const auto* data = static_cast<const std::byte*>(held.data);
    if (data < end && begin < data + held.bytes()) out.push_back(&p);
  }
  return out;
}

int64_t InferenceStore::weight_bytes() const {
  int64_t n = 0;
  for (const Storage& s : units_) n += s.bytes();
  return n;
}

}  // namespace ravine

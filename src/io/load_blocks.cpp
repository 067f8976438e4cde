#include "io/load_blocks.h"

#include <vector>

#include "base/error.h"

namespace ravine {
namespace {

// The whole matrices of a unit in f32, as a target to load into.
class WholeMatrices : public WeightSource {
 public:
  void add(const Param& p) { held_.push_back({&p, Storage(DeviceKind::cpu, p.shape.count() * size_of(DType::f32))}); }
  bool empty() const { return held_.empty(); }
  template <class F>
  void each(F&& f) const {
    for (const auto& [p, memory] : held_) f(*p, reinterpret_cast<const float*>(memory.data()));
  }

  void acquire(const Unit&) override {}
  void release(const Unit&) override {}
  TensorView value(const Param& p) const override { return master(p); }
  TensorView master(const Param& p) const override {
    for (const auto& [held, memory] : held_)
      if (held == &p) return view_of(memory.data(), DType::f32, p.shape, memory.device());
    fail("load_blocks: '{}' is not of this unit", p.name);
  }
  std::vector<ParamBox> boxes() const override {
    std::vector<ParamBox> out;
    for (const auto& [p, memory] : held_)
      out.push_back({p, {0, 0}, view_of(memory.data(), DType::f32, p->shape, memory.device())});
    return out;
  }

 private:
  std::vector<std::pair<const Param*, Storage>> held_;
};

}  // namespace

void load_blocks(const TensorSource& source, const Model& model, WeightSource& store,
                 const std::function<bool(const Param&)>& wanted) {
  for (const Unit& unit : model.params().units()) {
    WholeMatrices whole;
    for (const Param* p : unit.params)
      if (store.blocks(*p).bytes.data && (!wanted || wanted(*p))) whole.add(*p);
    if (whole.empty()) continue;
    load_tensors(source, model.params().params().size(), whole);
    whole.each([&](const Param& p, const float* values) {
      if (!nf4_encode(values, store.blocks(p)))
        throw UserError(fmt::format("'{}' holds values that are not finite", p.name), source.where,
                        "blocks of 4 bits are scaled by the largest value of each (lora.base=nf4)", source.fix);
    });
  }
}

}  // namespace ravine

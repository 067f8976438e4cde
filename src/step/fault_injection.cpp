#include "step/fault_injection.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>

#include "base/error.h"
#include "base/text.h"
#include "kernels/kernels.h"

namespace ravine {
namespace {

double value_of(PlantedValue value) {
  if (value == PlantedValue::nan) return std::numeric_limits<double>::quiet_NaN();
  return value == PlantedValue::infinity ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

// Host work: the planted value.
void put(const TensorView& v, int64_t element, double value) {
  const int64_t at = element % v.count();
  visit_float(v.dtype, [&](auto zero) {
    using T = decltype(zero);
    T& position = v.row<T>(at / v.cols())[at % v.cols()];
    if constexpr (sizeof(T) == 8)
      position = value;
    else
      position = T(static_cast<float>(value));
  });
}

}  // namespace

FaultInjection::FaultInjection(const std::vector<InjectOption>& faults) {
  std::vector<std::string> ops;
  Kernels().each([&]<class Args>(Kernel<Args>&) { ops.push_back(Args::name); });
  for (const InjectOption& o : faults) {
    if (std::none_of(ops.begin(), ops.end(), [&](const std::string& op) { return glob_match(o.op, op); })) {
      const std::string near = nearest(o.op, ops);
      throw UserError("no op '" + o.op + "'", "probe.inject", "it must be the name of an op",
                      near.empty() ? "see docs/howto/add-an-op.md" : "did you mean '" + near + "'?");
    }
    faults_.push_back({o});
  }
}

void FaultInjection::begin_step(int64_t step) {
  step_ = step;
  for (Fault& f : faults_) f.done = false;
}

void FaultInjection::after(const CallInfo& call) {
  for (Fault& f : faults_) {
    const InjectOption& o = f.option;
    if (f.done || o.step != step_ || o.phase != call.phase || !glob_match(o.path, call.path) || !glob_match(o.op, call.op))
      continue;
    for (const NamedView& t : call.tensors) {
      if (t.access == Access::read || !is_float(t.view.dtype) || !t.view.data || t.view.count() == 0 ||
          !glob_match(o.tensor, t.name))
        continue;
      f.done = true;
      if (o.value == PlantedValue::bad_alloc) throw std::bad_alloc();
      put(t.view, o.element, value_of(o.value));
      break;
    }
  }
}

std::string FaultInjection::missed() const {
  std::string out;
  for (const Fault& f : faults_)
    if (!f.done && f.option.step == step_)
      out += fmt::format("{}{} at {} ({}), tensor {}", out.empty() ? "" : "; ", f.option.op, f.option.path,
                         name(f.option.phase), f.option.tensor);
  return out;
}

}  // namespace ravine

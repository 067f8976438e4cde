#include "probe/substitution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/ctx.h"
#include "files/convert.h"
#include "kernels/error_bounds.h"
#include "probe/common_calls.h"
#include "probe/whole_run.h"

namespace ravine {
namespace {

// A tensor with its own memory and contiguous rows.
struct OwnTensor {
  explicit OwnTensor(const TensorView& like)
      : memory(DeviceKind::cpu, std::max<int64_t>(1, like.bytes())), view(view_of(memory.data(), like.dtype, like.shape)) {}
  std::span<const std::byte> bytes() const { return {memory.data(), static_cast<size_t>(view.bytes())}; }
  Storage memory;
  TensorView view;
};

const DumpRecord* record_of(const std::vector<const DumpRecord*>& records, const std::string& tensor, bool output) {
  for (const DumpRecord* r : records)
    if (r->tensor == tensor && r->output == output) return r;
  return nullptr;
}

CallTensor figures_for_bound(const char* name, bool output, const TensorView& v, const TensorFigures& f, double off,
                             std::span<const double> values) {
  return {.name = name,
          .output = output,
          .type = v.dtype,
          .norm = f.l2,
          .largest = f.abs_max,
          .count = v.count(),
          .columns = std::max<int64_t>(1, v.cols()),
          .off = off,
          .values = values};
}

// Returns the error and its bound relative to the kernel's output. Infinite if that is 0, and the dump's is above the
// bound.
GeneratedError generated(const PairErrors& e, const ErrorBound& bound) {
  const double allowed = 2 * bound.own + bound.inherited;
  if (e.norm_a == 0 && e.not_finite_on_one == 0) return {e.norm_b <= allowed ? 0 : e.relative, 0};
  return {e.relative, allowed / e.norm_a};
}

}  // namespace

// A call of the run before it runs. The figures of its tensors are computed once for both dumps.
class Substitution::Call {
 public:
  explicit Call(const CallInfo& call) : info(call), figures_(call.tensors.size()) {}
  // True if the record has the same bits as tensor i.
  bool has(const DumpRecord& r, size_t i) {
    const TensorView& v = info.tensors[i].view;
    if (r.dtype != v.dtype || r.shape.count() != v.count() || r.figures.rough) return false;
    if (!figures_[i]) figures_[i] = figures_of(v, false);
    return r.figures.same_bits(*figures_[i]);
  }
  const CallInfo& info;

 private:
  std::vector<std::optional<TensorFigures>> figures_;
};

Json Substituted::json() const {
  Json out{{"a", Json::object()}, {"b", Json::object()}, {"spread", spread}};
  for (const auto& [name, side] : {std::pair{"a", &a}, {"b", &b}})
    for (const auto& [key, g] : *side) out[name][key] = {std::isfinite(g.error) ? Json(g.error) : Json(), g.bound};
  return out;
}

void Substituted::add(const Json& j) {
  for (const auto& [name, side] : {std::pair{"a", &a}, {"b", &b}})
    for (const auto& [key, g] : j[name].items())
      (*side)[key] = {g[0].is_null() ? std::numeric_limits<double>::infinity() : g[0].get<double>(), g[1].get<double>()};
  for (const auto& [key, x] : j["spread"].items()) spread[key] = x.get<double>();
}

Substitution::Substitution(const Dump& a, const Dump& b, Substituted& found) : a_(a), b_(b) {
  a_.found = &found.a, b_.found = &found.b;
}

void Substitution::begin(OpenedRun& run, int64_t) {
  ctx_ = &run.engine->ctx();
  begin(run.spec->kernels, run.ranks.rank());
}

void Substitution::begin(const Kernels& kernels, int rank) {
  kernels_ = &kernels, rank_ = rank;
  const RankDump *a = rank_in(a_.dump, rank), *b = rank_in(b_.dump, rank);
  if (!a || !b) return;
  const CommonCalls common = common_calls(*a, *b, a_.dump.of_modules || b_.dump.of_modules);
  std::unordered_map<std::string, const DumpRecord*> others;
  for (const DumpRecord& r : b->records)
    if (common.all.contains(r.call())) calls_[r.call()].b.push_back(others[r.key()] = &r);
  for (const DumpRecord& r : a->records) {
    if (!common.all.contains(r.call())) continue;
    Records& call = calls_[r.call()];
    call.a.push_back(&r);
    const auto other = others.find(r.key());
    call.differ |= other == others.end() || !(other->second->figures.same_bits(r.figures) && other->second->dtype == r.dtype);
  }
  std::erase_if(calls_, [](const auto& c) { return !c.second.differ; });
}

void Substitution::begin_step(int64_t) { ctx_->add_observer(this); }

void Substitution::end_step(const StepResult&, const UpdateRates&, double) { ctx_->remove_observer(this); }

void Substitution::before(const CallInfo& info) {
  const DumpRecord like{.step = info.step,
                        .micro = info.micro + 1,
                        .phase = info.phase,
                        .path = std::string(info.path),
                        .op = info.op,
                        .n = info.ordinal};
  const auto records = calls_.find(like.call());
  if (records == calls_.end()) return;
  Call call(info);
  judge(a_, records->second.a, call);
  judge(b_, records->second.b, call);
}

// Returns the values of a record from its file or from the log; empty: there are none.
std::pair<DType, std::span<const std::byte>> Substitution::values_of(Side& side, const DumpRecord& r) {
  if (r.is_stored()) return {r.dtype, side.stored.bytes(r)};
  if (static_cast<int64_t>(r.values.size()) != r.shape.count()) return {r.dtype, {}};
  return {DType::f64, std::as_bytes(std::span(r.values))};
}

// Host work: rounds the operands of a dump to the types of the call.
void Substitution::judge(Side& side, const std::vector<const DumpRecord*>& records, Call& call) {
  const std::span<const NamedView> tensors = call.info.tensors;
  for (const DumpRecord* r : records)
    if (!r->output && std::none_of(tensors.begin(), tensors.end(), [&](const NamedView& t) { return r->tensor == t.name; }))
      return;  // it reads a tensor that Ravine's call does not read
  // Copies the values of a record in the call's type. Returns false if they are unknown. off: L2 norm of the change by
  // rounding to the type.
  auto fill = [&](const DumpRecord& r, size_t i, const TensorView& to, double* off) {
    const TensorView& live = tensors[i].view;
    const bool same = off && call.has(r, i);
    if (same || !is_float(to.dtype)) {
      const std::vector<std::byte> mine = packed(live);
      std::memcpy(to.data, mine.data(), mine.size());
      if (same) return true;
    }
    if (!(r.shape == live.shape) && !(side.dump.of_modules && r.shape.count() == live.count())) return false;
    if (is_float(r.dtype) != is_float(to.dtype)) return false;
    const int64_t n = r.shape.count();
    const auto [type, bytes] = values_of(side, r);
    if (bytes.empty()) return false;
    if (off && !is_float(to.dtype))  // must equal the run's values, else the call is not judged
      return errors_between(type, bytes, to.dtype, {static_cast<const std::byte*>(to.data), static_cast<size_t>(to.bytes())})
                 .differing == 0;
    convert(type, bytes.data(), to.dtype, to.data, n);
    if (off && r.dtype != to.dtype) {
      const size_t size = static_cast<size_t>(n * size_of(to.dtype));
      const PairErrors e = errors_between(type, bytes, to.dtype, {static_cast<const std::byte*>(to.data), size});
      *off = std::isfinite(e.relative) ? e.relative * e.norm_a : 0;
    }
    return true;
  };

  std::vector<OwnTensor> own;
  std::vector<TensorView> on;
  std::vector<CallTensor> figures;
  own.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const NamedView& t = tensors[i];
    own.emplace_back(t.view);
    on.push_back(t.view.data ? own.back().view : t.view);
    if (!t.view.data) continue;
    const DumpRecord* r = record_of(records, t.name, t.access == Access::write);
    double off = 0;
    if (t.access == Access::write) {
      if (!r || !fill(*r, i, on.back(), nullptr))
        std::memset(own.back().memory.data(), 0, static_cast<size_t>(on.back().bytes()));
      continue;
    }
    if (!r || !fill(*r, i, on.back(), &off)) return;
    figures.push_back(figures_for_bound(t.name, false, on.back(), figures_of(on.back(), true), off, r->values));
  }
  call.info.rerun(*kernels_, on);

  const size_t inputs = figures.size();
  std::vector<std::pair<const DumpRecord*, PairErrors>> written;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const DumpRecord* r = record_of(records, tensors[i].name, true);
    if (tensors[i].access == Access::read || !r || !on[i].data || r->shape.count() != on[i].count()) continue;
    const TensorFigures f = figures_of(on[i], true);
    PairErrors e;
    e.norm_a = e.norm_b = f.l2;
    if (!(r->dtype == on[i].dtype && !r->figures.rough && f.same_bits(r->figures))) {
      const auto [type, bytes] = values_of(side, *r);
      if (bytes.empty()) continue;
      e = errors_between(on[i].dtype, own[i].bytes(), type, bytes);
    }
    if (!is_float(on[i].dtype)) {
      if (e.differing > 0) return;  // another choice: its effects are no rounding
      continue;
    }
    written.emplace_back(r, e);
    figures.push_back(figures_for_bound(tensors[i].name, true, on[i], f, 0, {}));
    if (rounding_of(r->dtype) > rounding_of(on[i].dtype)) figures.back().type = r->dtype;
  }
  for (size_t i = 0; i < written.size(); ++i)
    (*side.found)[Substituted::key_on(rank_, *written[i].first)] =
        generated(written[i].second, error_bound(call.info.op, figures, figures[inputs + i]));
}

}  // namespace ravine

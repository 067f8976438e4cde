#include "probe/spread.h"

#include <cmath>

#include "base/philox.h"
#include "engine/ctx.h"
#include "files/convert.h"
#include "kernels/error_bounds.h"
#include "probe/common_calls.h"
#include "probe/producers.h"
#include "probe/whole_run.h"

namespace ravine {
namespace {

// Returns the coarsest type in both dumps.
DType unit_of(const Dump& a, const Dump& b) {
  DType out = DType::f64;
  for (const Dump* dump : {&a, &b})
    for (const RankDump& rank : dump->ranks)
      for (const DumpRecord& r : rank.records)
        if (is_float(r.dtype) && rounding_of(r.dtype) > rounding_of(out)) out = r.dtype;
  return out;
}

// Returns the index in the whole parameter of element i of a box.
int64_t element_of(const ParamBox& box, int64_t i) {
  const Shape &whole = box.param->shape, &part = box.view.shape;
  if (part.rank() != whole.rank()) return (box.begin.empty() ? 0 : box.begin.front()) + i;
  int64_t at = 0, stride = 1;
  for (int d = whole.rank() - 1; d >= 0; --d) {
    at += (box.begin[static_cast<size_t>(d)] + i % part[d]) * stride;
    i /= part[d], stride *= whole[d];
  }
  return at;
}

}  // namespace

// Host work, before the first step.
void move_parameters(WeightSource& store, DType unit, uint64_t seed) {
  const double by = 2 * rounding_of(unit);
  for (const ParamBox& box : store.boxes()) {
    if (!box.view.data || !is_float(box.view.dtype)) continue;
    const uint64_t key = philox_key(seed, box.param->name);
    visit_float(box.view.dtype, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t r = 0, i = 0; r < box.view.rows(); ++r)
        for (int64_t c = 0; c < box.view.cols(); ++c, ++i) {
          const auto at = static_cast<uint64_t>(element_of(box, i));
          const uint32_t word = philox(key, {static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), 0, 0})[0];
          T& w = box.view.row<T>(r)[c];
          const double factor = 1 + (word & 1 ? by : -by);
          if constexpr (sizeof(T) == 2)
            w = T(static_cast<float>(w) * static_cast<float>(factor));
          else
            w = static_cast<T>(w * factor);
        }
    });
  }
}

// Host work.
Spread::Sketch sketch_of(const TensorView& view) {
  Spread::Sketch out;
  std::vector<double> values(static_cast<size_t>(view.count()));
  convert(view.dtype, packed(view).data(), DType::f64, values.data(), view.count());
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t h = (i + 1) * 0x9e3779b97f4a7c15;
    h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93;
    h ^= h >> 32;
    out.sums[h % out.sums.size()] += h & 64 ? values[i] : -values[i];
    squares += values[i] * values[i];
  }
  out.norm = std::sqrt(squares);
  return out;
}

double distance(const Spread::Sketch& x, const Spread::Sketch& y) {
  double squares = 0;
  for (size_t i = 0; i < x.sums.size(); ++i) squares += (x.sums[i] - y.sums[i]) * (x.sums[i] - y.sums[i]);
  return squares == 0 ? 0 : std::sqrt(squares) / x.norm;
}

Spread::Spread(const Dump& a, const Dump& b, Substituted& found) : a_(a), b_(b), found_(found) {}

void Spread::begin(OpenedRun& run, int64_t) {
  ctx_ = &run.engine->ctx(), rank_ = run.ranks.rank();
  if (!again_) return find_wanted();
  move_parameters(run.engine->store(), unit_of(a_, b_));
  run.engine->store().refresh_copies(*ctx_);
}

// Selects the tensors that are not judged by kernel bounds alone (compare_dumps.h).
void Spread::find_wanted() {
  const RankDump *a = rank_in(a_, rank_), *b = rank_in(b_, rank_);
  if (!a || !b) return;
  const CommonCalls common = common_calls(*a, *b, a_.of_modules || b_.of_modules);
  const Producers made_a(a->records), made_b(b->records);
  std::map<std::string, const DumpRecord*> others;
  std::set<std::string> reading;
  for (const DumpRecord& r : b->records) others.emplace(r.key(), &r);
  for (const DumpRecord& r : a->records)
    if (!r.output) reading.insert(r.call());
  for (const DumpRecord& r : a->records) {
    const auto other = others.find(r.key());
    if (other == others.end() || !common.all.contains(r.call()) || !is_float(r.dtype)) continue;
    if (r.op == kStateOp || r.op == kGradientOp || other->second->figures.same_bits(r.figures)) continue;
    if (r.output && reading.contains(r.call()) && !common.partly.contains(r.call())) continue;
    if (!r.output) {
      const DumpRecord *by_a = made_a.of(r), *by_b = made_b.of(*other->second);
      const bool alone = (by_a && !common.all.contains(by_a->call())) || (by_b && !common.all.contains(by_b->call()));
      if (!alone && !(by_a && by_b && (by_a->call() != by_b->call() || by_a->tensor != by_b->tensor))) continue;
    }
    wanted_.insert(r.key()), calls_.insert(r.call());
  }
}

bool Spread::wants_more() const {
  for (const auto& [key, sketch] : sketches_) {
    const std::string on = fmt::format("{}/{}", rank_, key);
    if (!found_.a.contains(on) || !found_.b.contains(on)) return true;
  }
  return false;
}

void Spread::look(const CallInfo& call, bool output) {
  if (calls_.empty()) return;
  DumpRecord like{.step = call.step,
                  .micro = call.micro + 1,
                  .phase = call.phase,
                  .path = std::string(call.path),
                  .op = call.op,
                  .n = call.ordinal,
                  .output = output};
  if (!calls_.contains(like.call())) return;
  for (const NamedView& t : call.tensors) {
    if (!t.view.data || !is_float(t.view.dtype) || t.access == (output ? Access::read : Access::write)) continue;
    like.tensor = t.name;
    const std::string key = like.key();
    if (!wanted_.contains(key)) continue;
    const Sketch now = sketch_of(t.view);
    if (!again_) {
      sketches_[key] = now;
    } else if (const auto was = sketches_.find(key); was != sketches_.end()) {
      const double moved = distance(was->second, now);
      if (std::isfinite(moved)) found_.spread[Substituted::key_on(rank_, like)] = moved;
    }
  }
}

}  // namespace ravine

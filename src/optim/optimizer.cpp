#include "optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ravine {

Optimizer::Optimizer(const OptimizerOptions& options, ParamStore& store, const Types& types, DeviceKind device)
    : options_(options), store_(store), type_(types.master) {
  bool two = options.type != "sgd", one = two || options.momentum > 0;
  for (const Bucket& b : store.buckets()) {
    std::vector<UpdateSpan> spans;
    for (const Bucket::Span& s : b.spans) {
      if (!s.param->trainable) continue;
      int64_t begin = std::max(s.begin, b.mine.begin), end = std::min(s.begin + s.shape.count(), b.mine.begin + b.mine.count);
      if (begin >= end) continue;
      UpdateSpan u{begin - b.mine.begin, end - begin, s.param->lr_mult, s.param->decay ? options.weight_decay * s.param->wd_mult : 0.0};
      bool joins = !spans.empty() && spans.back().begin + spans.back().count == u.begin && spans.back().lr_mult == u.lr_mult &&
                   spans.back().weight_decay == u.weight_decay;
      if (joins)
        spans.back().count += u.count;
      else
        spans.push_back(u);
    }
    spans_.push_back(std::move(spans));
    int64_t bytes = b.trainable ? b.mine.count * size_of(type_) : 0;
    first_.emplace_back(device, one ? bytes : 0);
    second_.emplace_back(device, two ? bytes : 0);
  }
}

double Optimizer::grad_norm(Ctx& c, const Group& all) const {
  ExactSum squares;
  for (size_t b = 0; b < store_.buckets().size(); ++b) {
    const Bucket& bucket = store_.buckets()[b];
    TensorView g = store_.flat_grad(b);
    if (g.absent()) continue;
    for (const Range& r : counted_ranges(bucket)) {
      TensorView part = g;
      if (g.data) part.data = static_cast<std::byte*>(g.data) + (r.begin - bucket.mine.begin) * size_of(g.dtype);
      part.shape = {r.count};
      c.call(SumSquares{part, &squares});
    }
  }
  return std::sqrt(sum(all, squares).value());
}

namespace {
TensorView flat(const Storage& s, DType t) {
  return s.bytes() ? view_of(s.data(), t, {s.bytes() / size_of(t)}, s.device()) : TensorView{};
}
}  // namespace

void Optimizer::update(Ctx& c, double lr, double norm, const std::function<void(const Unit&)>& before_unit) {
  double t = static_cast<double>(++steps_);
  double b1 = options_.betas[0], b2 = options_.betas[1];
  double scale = options_.clip_norm > 0 ? std::min(1.0, options_.clip_norm / (norm + 1e-6)) : 1.0;
  std::array<double, kStepScalars> scalars{lr, 1 - std::pow(b1, t), 1 - std::pow(b2, t), scale};
  TensorView sv = view_of(scalars.data(), DType::f64, {kStepScalars});
  for (size_t b = 0; b < store_.buckets().size(); ++b) {
    TensorView g = store_.flat_grad(b);
    if (g.absent()) continue;
    const Unit& unit = *store_.buckets()[b].unit;
    if (before_unit) before_unit(unit);
    Ctx::Scope scope(c, unit.name);
    TensorView p = store_.flat_master(b), copy = store_.flat_copy(b), m = flat(first_[b], type_), v = flat(second_[b], type_);
    if (options_.type == "sgd")
      c.call(Sgd{.param = p, .grad = g, .buffer = m, .copy = copy, .scalars = sv, .spans = spans_[b], .momentum = options_.momentum,
                 .dampening = options_.dampening, .nesterov = options_.nesterov, .first = steps_ == 1});
    else
      c.call(AdamW{.param = p, .grad = g, .m = m, .v = v, .copy = copy, .scalars = sv, .spans = spans_[b], .beta1 = b1, .beta2 = b2,
                   .eps = options_.eps, .l2 = options_.type == "adam"});
    store_.publish(c, b);
  }
}

int64_t Optimizer::bytes() const {
  int64_t n = 0;
  for (auto& s : first_) n += s.bytes();
  for (auto& s : second_) n += s.bytes();
  return n;
}

std::vector<Optimizer::Moment> Optimizer::moments() const {
  bool two = options_.type != "sgd";
  std::vector<Moment> out;
  Moment first{two ? "m" : "momentum", {}}, second{"v", {}};
  for (size_t b = 0; b < first_.size(); ++b) {
    first.buckets.push_back(flat(first_[b], type_));
    second.buckets.push_back(flat(second_[b], type_));
  }
  if (two || options_.momentum > 0) out.push_back(std::move(first));
  if (two) out.push_back(std::move(second));
  return out;
}

}  // namespace ravine

#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

namespace ravine {

Optimizer::Optimizer(const OptimizerOptions& options, GradStore& store, const Types& types, DeviceKind device)
    : options_(options), store_(store), rule_(make_update_rule(options_)), states_(rule_->states().size()), type_(types.master) {
  const bool decay_all = options.decay == "all";
  for (const Bucket& b : store.buckets()) {
    std::vector<UpdateSpan> spans;
    for (const Bucket::Span& s : b.spans) {
      if (!s.param->trainable) continue;
      int64_t begin = std::max(s.begin, b.owned.begin), end = std::min(s.begin + s.shape.count(), b.owned.begin + b.owned.count);
      if (begin >= end) continue;
      UpdateSpan u{begin - b.owned.begin, end - begin, s.param->lr_mult, s.param->decay || decay_all ? options.weight_decay * s.param->wd_mult : 0.0};
      bool joins = !spans.empty() && spans.back().begin + spans.back().count == u.begin && spans.back().lr_mult == u.lr_mult &&
                   spans.back().weight_decay == u.weight_decay;
      if (joins)
        spans.back().count += u.count;
      else
        spans.push_back(u);
    }
    spans_.push_back(std::move(spans));
    for (std::vector<Storage>& state : states_) state.emplace_back(device, b.trainable ? b.owned.count * size_of(type_) : 0);
  }
}

double Optimizer::grad_norm(Ctx& c, const Group& all) const {
  ExactSum squares;
  for (size_t b = 0; b < store_.buckets().size(); ++b) {
    const Bucket& bucket = store_.buckets()[b];
    const TensorView g = store_.owned_grad(b);
    if (g.absent()) continue;
    for (const Range& r : counted_ranges(bucket)) {
      TensorView run = g;
      if (g.data) run.data = static_cast<std::byte*>(g.data) + (r.begin - bucket.owned.begin) * size_of(g.dtype);
      run.shape = {r.count};
      c.call(SumSquares{run, &squares});
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
  ++steps_;
  const double scale = options_.clip_norm > 0 ? std::min(1.0, options_.clip_norm / (norm + 1e-6)) : 1.0;
  for (size_t b = 0; b < store_.buckets().size(); ++b) {
    const TensorView grad = store_.owned_grad(b);
    if (grad.absent()) continue;
    const Unit& unit = *store_.buckets()[b].unit;
    if (before_unit) before_unit(unit);
    Ctx::Scope scope(c, unit.name);
    UpdateViews views{.param = store_.owned_master(b), .grad = grad, .copy = store_.owned_copy(b), .states = {}, .spans = spans_[b]};
    for (const std::vector<Storage>& state : states_) views.states.push_back(flat(state[b], type_));
    rule_->update(c, views, steps_, lr, scale);
    store_.publish(c, b);
  }
}

int64_t Optimizer::bytes() const {
  int64_t n = 0;
  for (const std::vector<Storage>& state : states_)
    for (const Storage& s : state) n += s.bytes();
  return n;
}

std::vector<Optimizer::State> Optimizer::states() const {
  std::vector<State> out;
  for (const std::string& name : rule_->states()) {
    out.push_back({name, {}});
    for (const Storage& s : states_[out.size() - 1]) out.back().buckets.push_back(flat(s, type_));
  }
  return out;
}

}  // namespace ravine

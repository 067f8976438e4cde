#include "train/given_steps.h"

#include <cstring>
#include <map>

#include "base/counted.h"
#include "io/slices.h"

namespace ravine {
namespace {

// Host work: writes numbers, times `scale`, to a run of elements of `to`.
void put_given(const double* from, double scale, std::byte* to, DType type, int64_t count) {
  visit_float(type, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < count; ++i) {
      T x;
      if constexpr (std::is_same_v<T, double>)
        x = from[i] * scale;
      else
        x = static_cast<T>(static_cast<float>(from[i] * scale));
      std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), &x, sizeof(T));
    }
  });
}

}  // namespace

GivenSteps::GivenSteps(OpenedRun& run) : run_(run), option_(run.config().train.given_gradients.front()) {
  if (run.engine->optimizer_sends_other_data())
    throw UserError(fmt::format("optimizer.type is {}", name(run.config().optimizer.type)), "train.given_gradients",
                    "its ranks exchange other data than gradients", "use another optimizer.type");
  const bool all = run.config().optimizer.decay == DecayOf::all;
  std::vector<GivenGradients::Wanted> wanted;
  for (const Param& p : run.model->params().params())
    if (p.policy.trainable && !p.tied) {
      params_.push_back(&p);
      wanted.push_back({p.name, p.shape, p.decay || all});
    }
  given_ = std::make_unique<GivenGradients>(option_.path, wanted);
  run.engine->replace_gradients([this](double loss_scale) { return write(loss_scale); });
}

void GivenSteps::print_stderr() {
  if (!said_)
    run_.log.line("given    gradients of {} from {}, {}, {}", counted(given_->steps(), "step"), option_.path, given_->how(),
                  option_.when == GivenWhen::after_clip ? "clipped already" : "before clipping");
  said_ = true;
}

StepEngine::Given GivenSteps::write(double loss_scale) {
  if (step_ > given_->steps()) {
    if (!said_end_) {
      if (said_)
        run_.log.line("given    from step {} on the gradients are the run's own", step_);
      else
        run_.log.warn("train.given_gradients has {}, and the run goes on at step {}: its gradients are its own",
                      counted(given_->steps(), "step"), step_);
    }
    said_end_ = true;
    return StepEngine::Given::none;
  }
  print_stderr();
  FlatStore& store = run_.engine->store();
  std::map<const Param*, size_t> index;
  for (size_t i = 0; i < params_.size(); ++i) index[params_[i]] = i;
  for (size_t b = 0; b < store.buckets().size(); ++b) {
    const Bucket& bucket = store.buckets()[b];
    const TensorView grad = store.owned_grad(b);
    if (grad.absent()) continue;
    for (const Piece& piece : pieces_of(bucket, bucket.owned)) {
      const auto at = index.find(piece.param);
      if (at == index.end()) continue;
      const std::vector<double> whole = given_->read(at->second, step_ - 1);
      std::byte* const to = grad.as<std::byte>() + (piece.from - bucket.owned.begin) * size_of(grad.dtype);
      const Shape& shape = piece.param->shape;
      each_shared_run({std::vector<int64_t>(static_cast<size_t>(shape.rank())), shape}, {piece.begin, piece.shape},
                      [&](const Run& r) {
                        put_given(whole.data() + r.from, loss_scale, to + r.to * size_of(grad.dtype), grad.dtype, r.count);
                      });
    }
  }
  return option_.when == GivenWhen::after_clip ? StepEngine::Given::clipped : StepEngine::Given::unclipped;
}

}  // namespace ravine

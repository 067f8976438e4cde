// What update rules of optimizers do to flat parts of parameters. Letters, types and determinism: kernels.h.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/view.h"

namespace ravine {

// A run of a flat buffer that shares its settings.
struct UpdateSpan {
  int64_t begin = 0, count = 0;
  double lr_mult = 1, weight_decay = 0;
};

// Scalars of a step live in one f64 tensor so that a captured graph can replay: [lr, 1-b1^t, 1-b2^t, gradient scale
// (clipping)].
enum StepScalar { kLr, kBias1, kBias2, kGradScale, kStepScalars };

// AdamW (Loshchilov, Hutter 2019) as torch.optim: g' = g * gradient scale;
//   p -= lr wd p (decoupled), or g' += wd p (`l2`: Adam);  m = b1 m + (1-b1) g';  v = b2 v + (1-b2) g'^2;
//   p -= lr (m / bias1) / (sqrt(v / bias2) + eps).   lr = lr scalar * lr_mult. cpu takes 1 - lr wd in f32, as torch does, and
//   rounds p once.
// All flat and contiguous, of one length; `copy` (optional) receives p in 16 bits.
struct AdamW {
  static constexpr const char* name = "adamw";
  TensorView param, grad, m, v, copy, scalars;
  std::span<const UpdateSpan> spans;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  bool l2 = false;
  template <class F>
  void each(F&& f) const {
    f("param", param, Access::update), f("grad", grad, Access::read), f("m", m, Access::update), f("v", v, Access::update);
    f("copy", copy, Access::write), f("scalars", scalars, Access::read);
  }
  double flops() const { return 12.0 * param.count(); }
};

// torch.optim.SGD: g' = g * gradient scale + wd p;  buffer = momentum * buffer + (1-dampening) g' (the first step: buffer =
// g');
//   p -= lr * (nesterov ? g' + momentum * buffer : buffer). Without momentum, buffer is absent and p -= lr g'.
struct Sgd {
  static constexpr const char* name = "sgd";
  TensorView param, grad, buffer, copy, scalars;
  std::span<const UpdateSpan> spans;
  double momentum = 0, dampening = 0;
  bool nesterov = false, first = false;
  template <class F>
  void each(F&& f) const {
    f("param", param, Access::update), f("grad", grad, Access::read), f("buffer", buffer, Access::update);
    f("copy", copy, Access::write), f("scalars", scalars, Access::read);
  }
  double flops() const { return 5.0 * param.count(); }
};

}  // namespace ravine

// RMSNorm or LayerNorm over the residual stream; it also adds the pending branch.
#pragma once
#include <string>

#include "engine/ops/layer_norm.h"

namespace ravine {

struct NormSpec {
  enum Kind : uint8_t { rms, layer } kind = rms;  // layer: with a bias
  double eps = 1e-6;
  double offset = 0;  // rms: scales by offset + weight (1 in Gemma)
};

class Norm {
 public:
  // Declares the parameters of a norm: <name>.weight (and, for LayerNorm, .bias), [hidden].
  Norm(ParamSet& set, Unit& unit, const std::string& name, int64_t hidden, const NormSpec& spec);
  // Adds the branch to the residual stream and normalises the sum. in.x [N,C], in.branch [N,C] or absent -> sum [N,C],
  // the stream with the branch, and out [N,C], its norm. Types as in rms_norm and layer_norm. `out` is only allowed for
  // LayerNorm.
  Normed operator()(Ctx& c, Flow in, std::optional<DType> out = {}) const;

 private:
  NormSpec spec_;
  std::string scope_;
  Param *weight_, *bias_ = nullptr;
};

}  // namespace ravine

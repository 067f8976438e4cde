// Multi-head attention with grouped keys and values and rotary positions.
#pragma once
#include "model/layers/linear.h"
#include "model/layers/rope.h"

namespace ravine {

struct AttentionSpec {
  int64_t hidden = 0, heads = 0, kv_heads = 0, head_size = 0, window = 0;
  bool qkv_bias = false, out_bias = false;
  double init_std = 0.02, out_init_std = 0.02;
};

class Attention {
 public:
  Attention(ParamSet& set, Unit& unit, const std::string& name, int layer, const AttentionSpec& spec, const RopeTable& table);
  Tensor operator()(Ctx& c, const Tensor& x) const;  // [N,C] -> [N,C]

 private:
  AttentionSpec spec_;
  int layer_;
  const RopeTable& table_;
  Linear qkv_, out_;
};

}  // namespace ravine

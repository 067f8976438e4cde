#include "model/layers/embedding.h"

#include "engine/ops/add.h"
#include "engine/ops/lora.h"

namespace ravine {

Embedding::Embedding(ParamSet& set, Unit& unit, const std::string& name, int64_t vocabulary, int64_t hidden, int64_t padding,
                     double init_std)
    : padding_(padding) {
  auto table = [&](const char* suffix, int64_t channels, Init init) {
    return Param{name + suffix, {vocabulary, channels}, {{0, Axis::tensor}}, init, true, Use::table};
  };
  weight_ = set.add(unit, table(".weight", hidden, {Init::normal, init_std}));
  const std::optional<AdapterSpec> spec = set.adapter_of ? set.adapter_of(name) : std::nullopt;
  if (!spec) return;
  Param a = table(".lora_embedding_A.weight", spec->rank, {Init::zeros});
  Param b{name + ".lora_embedding_B.weight", {hidden, spec->rank}, {}, {Init::normal, 1}};
  a.adapter = b.adapter = true;
  a_ = set.add(unit, a), b_ = set.add(unit, b), scale_ = spec->scale;
}

Tensor Embedding::operator()(Ctx& c, double scale) const {
  Tensor x = embedding(c, *weight_, padding_, scale);
  if (a_ == nullptr) return x;
  return add(c, std::move(x), low_rank_up(c, embedding(c, *a_, padding_, scale * scale_), *b_));
}

}  // namespace ravine

// Any JSON as the config.json of a model: a UserError, or a model whose parameters can be listed and counted.
#include <cstdlib>

#include "base/error.h"
#include "model/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  try {
    const Json config = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    // Layers cost memory each, before any weight does: what is asked here is the reading, so few are enough.
    if (config.is_object() && config.contains("num_hidden_layers") && config["num_hidden_layers"].is_number() &&
        config["num_hidden_layers"].get<double>() > 4)
      return 0;
    const auto model = make_model(config, "fuzz");
    const ModelFacts& f = model->facts();
    if (f.layers < 1 || f.heads < 1 || f.heads % f.kv_heads != 0 || f.vocabulary < 1 || model->params().count() < 1)
      std::abort();
    model->prepare(8, Types::of(DType::f32), DeviceKind::cpu);
    if (!(model->training_flops_per_token(16) > 0)) std::abort();
  } catch (const UserError&) {
  }
  return 0;
}

#include "plan/step_share.h"

#include <algorithm>

#include "base/clock.h"
#include "kernels/backend.h"
#include "parallel/initialise.h"
#include "plan/estimate.h"

namespace ravine {
double measure_step_share(const MachinePeaks& peaks) {
  constexpr int64_t kRows = 2, kColumns = 512, kVocabulary = 8192;
  const Json shape{
      {"model_type", "llama"},     {"hidden_size", 768},        {"intermediate_size", 2048},           {"num_hidden_layers", 2},
      {"num_attention_heads", 12}, {"vocab_size", kVocabulary}, {"max_position_embeddings", kColumns}, {"rms_norm_eps", 1e-5}};
  std::unique_ptr<Model> model = make_model(shape, "bench machine");
  Config config;
  config.train.micro_batch = config.train.global_batch = kRows;
  const Types types = Types::of(DType::f32);
  const Kernels kernels = backend_kernels(Backend::cpu);
  Rates rates;
  rates.flops_f32 = peaks.f32_product, rates.flops_bf16 = peaks.bf16_product, rates.bytes = peaks.copy_bytes,
  rates.step_share = 1;
  const double expected = estimate_step(*model, config, run_layout(config, 1, *model), types, kColumns, rates,
                                        block_costs(*model, config, types, kernels, kColumns, rates))
                              .seconds;

  StepEngine engine(*model, config, types, kernels, {.rows = kRows, .columns = kColumns});
  engine.allocate();
  initialise(model->params(), engine.store(), 1);
  const std::vector<MicroBatch> micros{random_micro_batch(kRows, kColumns, kVocabulary)};
  std::vector<double> times;
  for (int step = 0; step < 6; ++step) {
    const double began = seconds_now();
    engine.run(micros, step + 1, 1e-4);
    if (step > 0) times.push_back(seconds_now() - began);
  }
  std::nth_element(times.begin(), times.begin() + 2, times.end());
  return expected / times[2];
}

}  // namespace ravine

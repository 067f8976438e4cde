// Small models with random weights, computed by ref in f64, and their logits without a KV cache. In ref each row of a
// product is independent of the other rows.
#pragma once
#include <cstdint>
#include <vector>

#include "infer/loaded_model.h"
#include "parallel/initialise.h"

namespace ravine {

inline LoadedModel session_of(const Json& config) {
  LoadedModel s;
  s.model = make_model(config, "test");
  s.kernels = ref_kernels();
  s.types = Types::of(DType::f64);
  s.store = std::make_unique<FlatStore>(s.model->params(), s.types, DeviceKind::cpu);
  initialise(s.model->params(), *s.store, 3);
  return s;
}

inline Json small_llama(int64_t positions) {
  return {{"model_type", "llama"},    {"hidden_size", 32},
          {"num_hidden_layers", 2},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"intermediate_size", 48},
          {"vocab_size", 61},         {"max_position_embeddings", positions},
          {"initializer_range", 0.4}, {"tie_word_embeddings", false}};
}

// All logits [n][V] of a sequence, in f32.
inline std::vector<std::vector<float>> all_logits(const LoadedModel& s, std::vector<int32_t> ids) {
  HeapArena arena;
  Ctx c(s.setup(arena));
  const auto n = static_cast<int64_t>(ids.size());
  std::vector<int32_t> positions(ids.size());
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i);
  Batch b;
  b.tokens = n;
  b.ids = view_of(ids.data(), DType::i32, {n});
  b.positions = view_of(positions.data(), DType::i32, {n});
  b.segments = {{0, n, 0, n}};
  b.max_position = n;
  c.begin(b, false);
  s.model->forward(c);
  const TensorView logits = c.outputs().at("logits").view();
  std::vector<std::vector<float>> rows;
  for (int64_t r = 0; r < n; ++r) rows.emplace_back(logits.row<double>(r), logits.row<double>(r) + logits.cols());
  return rows;
}

// Logits of the last of `context`.
inline std::vector<float> last_logits(const LoadedModel& s, std::vector<int32_t> context) {
  return all_logits(s, std::move(context)).back();
}

}  // namespace ravine

// Conversations through a model: packed side by side, or padded to the longest of a micro batch, they have the loss and
// the gradients of each alone.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/philox.h"
#include "data/instruct/chat_store.h"
#include "data/mixed_dataset.h"
#include "kernels/backend.h"
#include "runs/open.h"
#include "runs/run_state.h"

namespace ravine {
namespace test_chat_sources {

constexpr int64_t kVocabulary = 97, kColumns = 96;

Json config() {
  return Json{
      {"model_type", "llama"},    {"hidden_size", 32},        {"intermediate_size", 64},   {"num_hidden_layers", 2},
      {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"vocab_size", kVocabulary}, {"max_position_embeddings", 128},
      {"initializer_range", 0.3}};
}

std::shared_ptr<ChatStore> store() {
  auto s = std::make_shared<ChatStore>(kVocabulary);
  for (uint32_t i = 0; i < 12; ++i) {
    EncodedChat e;
    uint32_t n = 5 + philox(1, {i, 0, 0, 0})[0] % 60;
    for (uint32_t t = 0; t < n; ++t) {
      e.ids.push_back(static_cast<int32_t>(philox(2, {i, t, 0, 0})[0] % kVocabulary));
      e.learned.push_back(t > n / 3 && t % 7 != 3);
    }
    s->append(e, i + 1);
  }
  return s;
}

struct Trial {
  Trial(bool pack, int64_t micro_batch, Backend backend, DType type)
      : model(make_model(config(), "test")), types(Types::of(type)) {
    std::vector<MixedStream> streams;
    streams.push_back({"chats", 1, std::make_unique<ChatSamples>(store(), ChatLayout{kColumns, pack, 0})});
    data = std::make_unique<MixedDataset>(std::move(streams), false, std::nullopt, kColumns);
    options.train.micro_batch = micro_batch;
    options.train.recompute = Recompute::none;
    options.optimizer.type = OptimizerType::sgd;
    options.optimizer.clip_norm = 0;
    engine = std::make_unique<StepEngine>(*model, options, types, backend_kernels(backend),
                                          StepShape{micro_batch, kColumns, data->sample_count() / micro_batch, false});
    engine->allocate();
    begin_weights(*engine, options);
  }
  StepResult step(bool alone) {
    std::vector<MicroBatch> micros;
    for (int64_t i = 0; i < data->sample_count(); i += options.train.micro_batch) {
      micros.push_back(make_micro_batch(*data, i, options.train.micro_batch));
      if (!alone) continue;
      MicroBatch& m = micros.back();  // without a single column of padding
      auto n = static_cast<size_t>(m.segments[0].length);
      m.columns = m.segments[0].length;
      m.ids.resize(n), m.labels.resize(n), m.positions.resize(n);
    }
    columns = 0;
    for (const MicroBatch& m : micros) columns = std::max(columns, m.columns);
    return engine->run(micros, 1, 0.1);
  }
  Config options;
  std::unique_ptr<Model> model;
  Types types;
  std::unique_ptr<MixedDataset> data;
  std::unique_ptr<StepEngine> engine;
  int64_t columns = 0;
};

std::vector<double> weights_of(const Trial& t) {
  std::vector<double> out;
  for (const Param& p : t.model->params().params()) {
    TensorView v = t.engine->store().master(p);
    for (int64_t i = 0; i < v.count(); ++i) out.push_back(v.dtype == DType::f64 ? v.as<double>()[i] : v.as<float>()[i]);
  }
  return out;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

struct Ends {
  Trial trial;
  StepResult step;
  std::vector<double> weights;
  Ends(bool pack, int64_t micro_batch, bool alone, DType type)
      : trial(pack, micro_batch, type == DType::f64 ? Backend::ref : Backend::cpu, type),
        step(trial.step(alone)),
        weights(weights_of(trial)) {}
};

// The error of a step in f32 against f64 is the size of its roundings. Sums in another order have other roundings of
// this size, and roundings in f64 are 2^-29 of it. Two such results differ by at most the sum, and the largest of a few
// is at most twice a usual one. So the bound is 4 times the error, and a last rounding.
TEST(ChatTraining, packed_and_padded_equal_each_alone) {
  Ends exact(false, 1, true, DType::f64);
  auto off = [](const Ends& a, const Ends& b) {
    return std::array{std::abs(a.step.loss - b.step.loss), std::abs(a.step.grad_norm - b.step.grad_norm),
                      distance(a.weights, b.weights)};
  };
  const std::array sizes{exact.step.loss, exact.step.grad_norm,
                         distance(exact.weights, std::vector<double>(exact.weights.size()))};
  const Ends single(false, 1, true, DType::f32);
  const auto rounded = off(single, exact);
  for (DType type : {DType::f64, DType::f32}) {
    SCOPED_TRACE(name(type));
    Ends padded(false, 4, false, type), packed(true, 1, false, type);
    ASSERT_LT(packed.trial.data->sample_count(), 12);
    EXPECT_LE(padded.trial.columns, 64) << "the micro batch is as wide as its longest row";
    EXPECT_EQ(exact.step.valid, padded.step.valid);
    EXPECT_EQ(exact.step.valid, packed.step.valid);
    const double rounding = epsilon(type) / 2;
    for (const Ends* other : {&padded, &packed})
      for (size_t i = 0; i < 3; ++i)
        EXPECT_LE(off(*other, exact)[i], 4 * (rounded[i] * rounding / 0x1p-24 + rounding * sizes[i]))
            << (other == &padded ? "padded" : "packed") << ", " << std::array{"loss", "norm", "weights"}[i];
  }
}

}  // namespace test_chat_sources
}  // namespace ravine

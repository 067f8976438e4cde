// Conversations through a model: packed side by side, or padded to the longest of a micro batch, they have the loss and the gradients of each
// alone.
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "data/instruct/chat_store.h"
#include "data/mixed_dataset.h"
#include "kernels/backend.h"
#include "train/open.h"

namespace ravine {
namespace {

constexpr int64_t kVocabulary = 97, kColumns = 96;

Json config() {
  return Json{{"model_type", "llama"}, {"hidden_size", 32}, {"intermediate_size", 64}, {"num_hidden_layers", 2}, {"num_attention_heads", 4},
              {"num_key_value_heads", 2}, {"vocab_size", kVocabulary}, {"max_position_embeddings", 128}, {"initializer_range", 0.3}};
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
  Trial(bool pack, int64_t micro_batch, const std::string& backend, DType type)
      : model(make_model(config(), "test")), types(Types::of(type)) {
    std::vector<MixedStream> streams;
    streams.push_back({"chats", 1, std::make_unique<ChatSamples>(store(), ChatLayout{kColumns, pack, 0})});
    data = std::make_unique<MixedDataset>(std::move(streams), false, std::nullopt, kColumns);
    options.train.micro_batch = micro_batch;
    options.train.recompute = "none";
    options.optimizer.type = "sgd";
    options.optimizer.clip_norm = 0;
    engine = std::make_unique<StepEngine>(*model, options, types, backend_kernels(backend), StepShape{micro_batch, kColumns, data->sample_count() / micro_batch, false});
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

double weights_difference(Trial& a, Trial& b, double* scale) {
  double most = 0;
  *scale = 0;
  for (const Param& p : a.model->params().params()) {
    TensorView x = a.engine->store().master(p);
    for (const Param& q : b.model->params().params()) {
      if (q.name != p.name) continue;
      TensorView y = b.engine->store().master(q);
      for (int64_t i = 0; i < x.count(); ++i) {
        double u = x.dtype == DType::f64 ? x.as<double>()[i] : x.as<float>()[i], v = y.dtype == DType::f64 ? y.as<double>()[i] : y.as<float>()[i];
        most = std::max(most, std::abs(u - v));
        *scale = std::max(*scale, std::abs(u));
      }
    }
  }
  return most;
}

struct Case {
  const char* backend;
  DType type;
  double eps;
};

// Sums of a few thousand terms in another order: the error of one is eps times the square root of their number, and a deep model multiplies it
// by its condition, for which 100 is ample here (norms follow each layer).
TEST(ChatTraining, packed_and_padded_equal_each_alone) {
  for (Case c : {Case{"ref", DType::f64, 2.3e-16}, Case{"cpu", DType::f32, 1.2e-7}}) {
    SCOPED_TRACE(c.backend);
    Trial alone(false, 1, c.backend, c.type), padded(false, 4, c.backend, c.type), packed(true, 1, c.backend, c.type);
    ASSERT_LT(packed.data->sample_count(), 12);
    StepResult a = alone.step(true), b = padded.step(false), d = packed.step(false);
    EXPECT_LE(padded.columns, 64) << "the micro batch is as wide as its longest row";
    EXPECT_EQ(a.valid, b.valid);
    EXPECT_EQ(a.valid, d.valid);
    double bound = 100 * c.eps * std::sqrt(4000.0), scale = 0;
    EXPECT_NEAR(b.loss, a.loss, bound * a.loss);
    EXPECT_NEAR(d.loss, a.loss, bound * a.loss);
    EXPECT_NEAR(b.grad_norm, a.grad_norm, bound * a.grad_norm);
    EXPECT_NEAR(d.grad_norm, a.grad_norm, bound * a.grad_norm);
    double padded_off = weights_difference(alone, padded, &scale), packed_off = weights_difference(alone, packed, &scale);
    EXPECT_LE(padded_off, bound * scale);
    EXPECT_LE(packed_off, bound * scale);
  }
}

}  // namespace
}  // namespace ravine

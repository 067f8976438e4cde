// The store of a model for inference: one copy of each weight, in the type that kernels read, with the results of the
// store of a training run.
#include <gtest/gtest.h>

#include <cstring>

#include "infer/generator.h"
#include "infer/loaded_model.h"
#include "infer/speed.h"
#include "io/huggingface.h"
#include "parallel/initialise.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_infer_store {

Json config(bool tied) {
  return {{"model_type", "llama"},    {"hidden_size", 32},        {"num_hidden_layers", 2},     {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"intermediate_size", 48},  {"vocab_size", 61},           {"max_position_embeddings", 64},
          {"attention_bias", true},   {"initializer_range", 0.4}, {"tie_word_embeddings", tied}};
}

// A folder with f32 weights, and the store they came from.
struct Folder {
  explicit Folder(bool tied)
      : model(make_model(config(tied), "test")), store(model->params(), Types::of(DType::f32), DeviceKind::cpu) {
    initialise(model->params(), store, 5);
    for (Param& p : model->params().params())
      if (p.init.kind != Init::normal && !p.tied)
        for (int64_t i = 0; i < p.shape.count(); ++i) store.master(p).as<float>()[i] += 0.001f * static_cast<float>(i);
    save_model_folder({dir / "m", DType::f32}, *model, store);
  }
  TemporaryFolder dir;
  std::unique_ptr<Model> model;
  FlatStore store;
};

TEST(InferenceStore, HoldsEachWeightOnceRoundedToItsType) {
  for (bool tied : {false, true}) {
    Folder f(tied);
    for (DType type : {DType::f32, DType::bf16, DType::f16}) {
      LoadedModel s = load_model(f.dir / "m", type, Backend::cpu);
      int64_t bytes = 0;
      for (const Param& p : s.model->params().params()) {
        const TensorView v = s.store->value(p);
        EXPECT_EQ(v.data, s.store->master(p).data) << p.name;
        const DType want = p.use == Use::vector ? DType::f32 : type;
        ASSERT_EQ(v.dtype, want) << p.name;
        if (p.tied) {
          EXPECT_EQ(v.data, s.store->value(*p.tied).data);
          continue;
        }
        bytes += v.bytes();
        const float* from = f.store.master(*f.model->params().find(p.name)).as<float>();
        visit_float(want, [&](auto zero) {
          using T = decltype(zero);
          for (int64_t i = 0; i < v.count(); ++i) {
            const T rounded(from[i]);
            ASSERT_EQ(std::memcmp(&v.as<T>()[i], &rounded, sizeof(T)), 0) << p.name << " " << i;
          }
        });
      }
      // One copy of each, and what aligning a parameter may cost.
      const auto& store = dynamic_cast<const InferenceStore&>(*s.store);
      EXPECT_GE(store.weight_bytes(), bytes);
      EXPECT_LT(store.weight_bytes(), bytes + kAlignment * static_cast<int64_t>(s.model->params().params().size()));
    }
  }
}

TEST(InferenceStore, JoinedParametersLieSideBySide) {
  Folder f(false);
  LoadedModel s = load_model(f.dir / "m", DType::bf16, Backend::cpu);
  for (const Unit& unit : s.model->params().units())
    for (size_t i = 0; i + 1 < unit.params.size(); ++i) {
      const Param &a = *unit.params[i], &b = *unit.params[i + 1];
      const TensorView va = s.store->value(a), vb = s.store->value(b);
      if (a.join == b.join) EXPECT_EQ(static_cast<char*>(va.data) + va.bytes(), vb.data) << b.name;
      EXPECT_GE(static_cast<char*>(vb.data), static_cast<char*>(va.data) + va.bytes()) << b.name;
      if (a.join != b.join) EXPECT_EQ(reinterpret_cast<uintptr_t>(vb.data) % kAlignment, 0u) << b.name;
    }
}

TEST(InferenceStore, GeneratesWhatTheTrainingStoreGenerates) {
  Folder f(true);
  GenerateOptions o;
  o.max_new_tokens = 12;
  const std::vector<std::vector<int32_t>> prompts = {{5, 7, 9}, {1}, {60, 3, 8, 8, 1}};
  LoadedModel running = load_model(f.dir / "m", DType::f32, Backend::cpu),
              training = load_model(f.dir / "m", DType::f32, Backend::cpu, OpenFor::gradients);
  ASSERT_EQ(running.trainable, nullptr);
  ASSERT_NE(training.trainable, nullptr);
  const auto a = generate(running, prompts, o), b = generate(training, prompts, o);
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(a[i].ids, b[i].ids);
    EXPECT_EQ(a[i].logprob, b[i].logprob);
  }
}

// Whoever has a source of weights cannot ask it for gradients: that does not compile.
template <class Store>
concept Trains = requires(Store s, Ctx& c, const Unit& u) {
  s.open_grads(c, u);
};
static_assert(std::is_base_of_v<WeightSource, InferenceStore> && !std::is_base_of_v<GradStore, InferenceStore>);
static_assert(!Trains<InferenceStore> && !Trains<WeightSource> && Trains<FlatStore>);

TEST(InferenceStore, RefusesToTrain) {
  Folder f(false);
  LoadedModel s = load_model(f.dir / "m", DType::f32, Backend::cpu);
  HeapArena arena;
  Ctx c(s.setup(arena));
  EXPECT_THROW(c.grad_store(), Error);
}

// Counts of `bench prefill` and `bench decode`, by hand.
TEST(InferenceSpeed, CountsBytesAndFlops) {
  TemporaryFolder dir;
  spill(dir / "config.json", config(false).dump());
  LoadedModel s = load_random_model(dir / "config.json", DType::bf16, Backend::cpu);
  SpeedOptions o;
  o.batch = 3, o.length = 10, o.steps = 4;
  const int64_t qkv = 64 * 32, out = 32 * 32, mlp = 3 * 48 * 32, head = 61 * 32;  // elements
  const int64_t vectors = 2 * (2 * 32 + 64 + 32) + 32;                            // norms and biases
  const int64_t matrices = 2 * (qkv + out + mlp) + head;
  const Speed decode = measure_decode(s, o);
  EXPECT_EQ(decode.weight_bytes, 2 * matrices + 4 * vectors + 3 * 32 * 2);
  EXPECT_EQ(decode.cache_bytes, 2 * 2 * 16 * 2 * (10 + 1 + 2 + 4) * 3);
  EXPECT_GT(decode.seconds, 0);
  EXPECT_DOUBLE_EQ(decode.tokens_per_second, 3 / decode.seconds);
  const Speed prefill = measure_prefill(s, o);
  EXPECT_DOUBLE_EQ(prefill.flops, 2.0 * (matrices - head) * 30 + 2.0 * head * 3 + 4.0 * 2 * 32 * (3 * 55));
  EXPECT_DOUBLE_EQ(prefill.tokens_per_second, 30 / prefill.seconds);
}

}  // namespace test_infer_store
}  // namespace ravine

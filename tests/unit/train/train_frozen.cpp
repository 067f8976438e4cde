// Tests of frozen parameters under bf16: their memory, plan and checkpoints, and their source in a resume.
#include <gtest/gtest.h>

#include <filesystem>

#include "files/mapped_file.h"
#include "io/huggingface.h"
#include "io/manifest.h"
#include "kernels/backend.h"
#include "parallel/initialise.h"
#include "runs/open.h"
#include "runs/run_state.h"
#include "tests/unit/train_help.h"

namespace ravine {
namespace test_train_frozen {

namespace fs = std::filesystem;

// All sizes are multiples of 16, so that nothing is padded.
Json wide_llama() {
  Json j = tiny_llama();
  j["hidden_size"] = 32, j["intermediate_size"] = 64, j["vocab_size"] = 48;
  return j;
}

struct Engine {
  explicit Engine(DType compute, const std::function<bool(const Param&)>& frozen, int data = 1, int64_t zero = 0)
      : model(make_model(wide_llama(), "test")), ranks(Ranks::fake({.data = data}, 0)) {
    for (Param& p : model->params().params()) p.policy.trainable = !frozen(p);
    config.parallel.zero = zero;
    config.parallel.zero_threshold = 1;
    engine =
        std::make_unique<StepEngine>(*model, config, Types::of(compute), backend_kernels(Backend::cpu, Bf16Products::widen),
                                     StepShape{.rows = 1, .columns = kWidth}, nullptr, &ranks);
  }
  Config config;
  std::unique_ptr<Model> model;
  Ranks ranks;
  std::unique_ptr<StepEngine> engine;
};

bool half(const Param& p) { return p.name.find("layers.0.") != std::string::npos || p.name == "model.embed_tokens.weight"; }
bool none(const Param&) { return false; }

// f32 masters of what is trained, with 16-bit copies for products; of what is frozen what kernels read: 16 bits for
// products, f32 for norms and tables.
TEST(Frozen, APlanCountsWhatIsKept) {
  for (DType compute : {DType::f32, DType::bf16})
    for (auto frozen : {none, half}) {
      const Engine e(compute, frozen);
      int64_t weights = 0, moments = 0;
      for (const Param& p : e.model->params().params()) {
        const bool narrow = compute == DType::bf16 && p.use == Use::matrix;
        weights += p.shape.count() * (!narrow ? 4 : p.policy.trainable ? 6 : 2);
        moments += p.policy.trainable ? p.shape.count() * 8 : 0;
      }
      EXPECT_EQ(e.engine->memory().weights, weights) << name(compute);
      EXPECT_EQ(e.engine->memory().optimizer, moments) << name(compute);
    }
  const auto gradients = [](const Engine& e) {
    return e.engine->memory().arena.peak_kind[static_cast<size_t>(MemoryKind::gradients)];
  };
  EXPECT_LT(gradients(Engine(DType::bf16, half)), gradients(Engine(DType::bf16, none)));
}

TEST(Frozen, ShardsOfSixteenBitsUnderZero3) {
  const Engine whole(DType::bf16, half, 2, 2), shards(DType::bf16, half, 2, 3);
  for (size_t b = 0; b < 2; ++b) EXPECT_GT(whole.engine->memory().weights, shards.engine->memory().weights);
  FlatStore store(whole.model->params(), Types::of(DType::bf16), DeviceKind::meta,
                  {.zero = 3, .whole_below = 1, .ranks = &whole.ranks});
  int found = 0;
  for (size_t b = 0; b < store.buckets().size(); ++b) {
    const Bucket& bucket = store.buckets()[b];
    if (bucket.storage != ValueStorage::copy) continue;
    ++found;
    EXPECT_FALSE(bucket.trainable);
    EXPECT_TRUE(store.owned_master(b).absent());
    EXPECT_TRUE(store.owned_grad(b).absent());
    EXPECT_EQ(store.resident_values(b).dtype, DType::bf16);
    EXPECT_EQ(store.resident(b), bucket.owned);
  }
  EXPECT_EQ(found, 1);
}

// A checkpoint of version 1 has the f32 masters of everything; what is frozen now is rounded from them.
TEST(Frozen, AnOldCheckpointThatHoldsThemIsRead) {
  TemporaryFolder dir;
  Engine old(DType::bf16, none);
  old.engine->allocate();
  initialise(old.engine->store(), 3);
  CheckpointWriter writer;
  TrainState state = state_of(*old.engine);
  writer.save(dir / "c", 5, state, 0);
  writer.wait();
  const std::string folder = dir / "c/step_000005", manifest = folder + "/manifest.json";
  std::string text = slurp(manifest);
  const std::string now = fmt::format("\"version\":{}", kManifestVersion);
  ASSERT_NE(text.find(now), std::string::npos);
  text.replace(text.find(now), now.size(), "\"version\":1");
  spill(manifest, seal_manifest(text));
  const CheckpointReader reader(folder, true);
  Engine e(DType::bf16, half);
  EXPECT_TRUE(left_out_of(reader, *e.model).empty());
  e.engine->allocate();
  restore(*e.engine, reader);
  for (const Param& p : e.model->params().params()) {
    const TensorView got = e.engine->store().master(p), want = old.engine->store().master(*old.model->params().find(p.name));
    for (int64_t i = 0; i < got.count(); ++i) {
      if (got.dtype == DType::bf16)
        ASSERT_EQ(static_cast<float>(got.as<bf16>()[i]), static_cast<float>(bf16(want.as<float>()[i]))) << p.name;
      else
        ASSERT_EQ(got.as<float>()[i], want.as<float>()[i]) << p.name;
    }
  }
}

// Parameters that a checkpoint leaves out are read from the model folder, for any type of the layout.
TEST(Frozen, WhatIsLeftOutComesFromTheModelFolder) {
  TemporaryFolder dir;
  Engine began(DType::f32, none);
  began.engine->allocate();
  initialise(began.engine->store(), 3);
  save_model_folder({dir / "m", DType::f32}, *began.model, began.engine->store());
  Engine e(DType::bf16, half);
  e.engine->allocate();
  Config c;
  c.model.path = dir / "m";
  begin_weights(*e.engine, c);
  const TrainState trained = state_of(*e.engine, StateFor::writing_trained);
  for (const StateTensor& t : trained.tensors)
    EXPECT_FALSE(half(*e.model->params().find(t.name.substr(t.name.find('/') + 1)))) << t.name;
  CheckpointWriter writer;
  writer.save(dir / "c", 1, trained, 0);
  writer.wait();
  const CheckpointReader reader(dir / "c/step_000001", true);
  EXPECT_EQ(left_out_of(reader, *e.model).size(),
            static_cast<size_t>(std::count_if(e.model->params().params().begin(), e.model->params().params().end(), half)));
  Engine again(DType::bf16, half);
  again.engine->allocate();
  restore(*again.engine, reader, {.path = dir / "m"});
  for (const Param& p : e.model->params().params()) {
    const TensorView a = e.engine->store().master(p), b = again.engine->store().master(*again.model->params().find(p.name));
    EXPECT_EQ(std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())), 0) << p.name;
  }
}

}  // namespace test_train_frozen
}  // namespace ravine

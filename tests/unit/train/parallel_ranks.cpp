// Several ranks compute what one computes: every parameter after three steps, loss and norm, for every family; in
// double, where sums in another order differ by roundings only. Layouts that promise the same bits are compared bit for
// bit.
#include "tests/unit/tiers.h"
#include "tests/unit/train_on_ranks.h"

namespace ravine {
namespace test_parallel_ranks {

TEST(TensorRanks, EveryFamilyIsWhatOneRankMakesOfIt) {
  for (const auto& [name, shape] : families_for_ranks()) {
    const Outcome one = trained(shape, config_of({}));
    EXPECT_GT(std::abs(one.losses[0] - one.losses[2]), 1e-3) << name << ": it learns";
    for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{
             {{"tensor", 2}}, {{"tensor", 2}, {"sequence", 1}}, {{"tensor", 4}, {"sequence", 1}}})
      expect_near(one, trained(shape, config_of(parallel)), fmt::format("{}, {}", name, Json(parallel).dump()));
  }
}

// One key/value head, held by all of four tensor ranks: its gradient is the sum over all four.
TEST(TensorRanks, OneHeadOnFourRanks) {
  const Json shape = like_llama("qwen2", {{"num_key_value_heads", 1}});
  const Outcome one = trained(shape, config_of({}));
  for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{
           {{"tensor", 4}}, {{"tensor", 4}, {"sequence", 1}}, {{"tensor", 4}, {"data", 2}, {"zero", 3}}})
    expect_near(one, trained(shape, config_of(parallel)), Json(parallel).dump());
}

TEST(TensorRanks, OnAnyMeshWithAnyZero) {
  const auto families = families_for_ranks();
  for (const std::string name : {"llama", "llama, tied", "qwen3"}) {
    const Json& shape = families.at(name);
    const Outcome one = trained(shape, config_of({}));
    for (int64_t sequence : {0, 1})
      for (const auto& more : std::vector<std::map<std::string, int64_t>>{
               {{"zero", 0}}, {{"zero", 1}}, {{"zero", 3}}, {{"pipeline", 2}, {"data", 1}}, {{"pipeline", 2}, {"zero", 2}}}) {
        std::map<std::string, int64_t> parallel{{"tensor", 2}, {"data", 2}, {"sequence", sequence}};
        for (const auto& [key, value] : more) parallel[key] = value;
        expect_near(one, trained(shape, config_of(parallel)), fmt::format("{}, {}", name, Json(parallel).dump()));
      }
  }
}

TEST(TensorRanks, RecomputationDropoutAndFrozenParameters) {
  const Json shape = families_for_ranks().at("qwen3");
  for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::full})
    for (int64_t sequence : {0, 1}) {
      auto config = [&](const std::map<std::string, int64_t>& parallel) {
        Config c = config_of(parallel);
        c.train.recompute = recompute, c.train.dropout = 0.2, c.train.attention_dropout = 0.3, c.train.steps = 2;
        return c;
      };
      const auto freeze = [](ParamSet& set) {
        for (const char* name :
             {"model.layers.0.self_attn.k_proj.weight", "model.layers.1.self_attn.q_norm.weight", "model.embed_tokens.weight"})
          set.find(name)->policy.trainable = false;
      };
      expect_near(trained(shape, config({}), freeze), trained(shape, config({{"tensor", 2}, {"sequence", sequence}}), freeze),
                  fmt::format("{}, sequence {}", ravine::name(recompute), sequence));
    }
}

// The loss takes tokens 1024 at a time.
TEST(TensorRanks, MoreTokensThanAChunkOfTheLoss) {
  const Json shape = like_llama("llama", {{"hidden_size", 4},
                                          {"intermediate_size", 4},
                                          {"num_attention_heads", 2},
                                          {"num_hidden_layers", 1},
                                          {"max_position_embeddings", 2048}});
  auto config = [](const std::map<std::string, int64_t>& parallel) {
    Config c = config_of(parallel);
    c.train.global_batch = 2, c.train.steps = 1, c.data.sequence_length = 1100, c.parallel.sum_leaves = 1;
    return c;
  };
  const Outcome one = trained(shape, config({}));
  for (int64_t sequence : {0, 1})
    expect_near(one, trained(shape, config({{"tensor", 2}, {"sequence", sequence}})), fmt::format("sequence {}", sequence));
}

TEST(DataRanksAndStages, KeepEveryBit) {
  const auto families = families_for_ranks();
  for (const std::string name : {"llama, tied", "gpt2", "mixtral", "qwen2_moe"}) {
    const Json& shape = families.at(name);
    const Outcome one = trained(shape, config_of({}));
    for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{{{"data", 2}},
                                                                            {{"data", 4}},
                                                                            {{"data", 2}, {"zero", 1}},
                                                                            {{"data", 2}, {"zero", 2}},
                                                                            {{"data", 2}, {"zero", 3}},
                                                                            {{"data", 4}, {"zero", 3}},
                                                                            {{"pipeline", 2}},
                                                                            {{"pipeline", 2}, {"data", 2}, {"zero", 1}},
                                                                            {{"pipeline", 2}, {"data", 2}, {"zero", 2}},
                                                                            {{"pipeline", 2}, {"data", 2}, {"zero", 3}}})
      expect_same(one, trained(shape, config_of(parallel)), fmt::format("{}, {}", name, Json(parallel).dump()));
  }
  const Json deep = like_llama("llama", {{"num_hidden_layers", 4}});
  const Outcome one = trained(deep, config_of({}));
  for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{
           {{"pipeline", 4}}, {{"pipeline", 2}, {"virtual", 2}}, {{"pipeline", 2}, {"virtual", 2}, {"data", 2}, {"zero", 1}}})
    expect_same(one, trained(deep, config_of(parallel)), Json(parallel).dump());
}

// 16-bit copies beside masters, moments in parts, heads whose rows are brought to length 1 (the masters are read),
// activations that are made again, dropout.
TEST(DataRanksAndStages, KeepEveryBitInBf16) {
  auto families = families_for_ranks();
  for (const std::string name : {"llama, tied", "baichuan2-13b", "gpt2"})
    for (const OptimizerType type : {OptimizerType::adamw, OptimizerType::sgd}) {
      auto config = [&](const std::map<std::string, int64_t>& parallel) {
        Config c = config_of(parallel);
        c.parallel.sum_leaves = 8;  // ZeRO 2 and 3 promise the same bits where a leaf is one micro batch
        c.precision.compute = DType::bf16, c.optimizer.type = type, c.optimizer.momentum = 0.9, c.optimizer.lr = 0.01,
        c.train.recompute = Recompute::full, c.train.dropout = 0.1;
        return c;
      };
      const Outcome one = trained(families.at(name), config({}));
      for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{{{"data", 2}},
                                                                              {{"data", 2}, {"zero", 1}},
                                                                              {{"data", 4}, {"zero", 2}},
                                                                              {{"data", 2}, {"zero", 3}},
                                                                              {{"pipeline", 2}},
                                                                              {{"pipeline", 2}, {"data", 2}, {"zero", 1}},
                                                                              {{"pipeline", 2}, {"data", 2}, {"zero", 3}}})
        expect_same(one, trained(families.at(name), config(parallel)),
                    fmt::format("{}, {}, {}", name, ravine::name(type), Json(parallel).dump()));
    }
}

// A frozen parameter does not change, and all others train as before. Gradients are summed over micro batches, too. The
// frozen one may be joined with a trained one, or next to it.
TEST(Frozen, OneParameterStaysAndTheRestLearnsAsBefore) {
  for (const auto& [family, shape] : families_for_ranks()) {
    Config c = config_of({{"leaves", 1}});
    c.train.global_batch = 2, c.train.steps = 1, c.optimizer.clip_norm = 0, c.optimizer.weight_decay = 0;
    const Outcome all = trained(shape, c);
    std::unique_ptr<Model> model = make_model(shape, "test");
    std::map<std::string, std::vector<double>> begun;
    {
      Config still = c;
      still.optimizer.lr = 0;
      begun = trained(shape, still).weights;
    }
    for (const Param& p : model->params().params()) {
      if (p.tied || p.name.find("layers.1.") != std::string::npos) continue;
      const Outcome one = trained(shape, c, [&](ParamSet& set) { set.find(p.name)->policy.trainable = false; });
      for (const auto& [name, weights] : one.weights)
        EXPECT_EQ(weights, (name == p.name ? begun : all.weights).at(name))
            << family << ": " << name << " beside a frozen " << p.name;
      double squares = 0;
      for (const auto& [name, weights] : all.weights)
        for (size_t i = 0; i < weights.size() && name != p.name; ++i)
          squares += std::pow((weights[i] - begun.at(name)[i]) / c.optimizer.lr, 2);
      EXPECT_NEAR(one.norms[0], std::sqrt(squares), 0x1p-40 * one.norms[0])
          << family << ": what is frozen does not count: " << p.name;
    }
  }
}

// A rank sends the bytes that the planned step on fake groups has counted for `ravine plan`. The planned step may have
// left out most micro batches.
TEST(Traffic, IsWhatThePlanPredicts) {
  auto families = families_for_ranks();
  Drawn drawn(7);  // of 288; neighbours differ in layout and recomputation
  for (const std::string name : {"llama", "llama, tied", "gpt2", "bloom", "mixtral", "qwen2_moe"}) {
    for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{{{"data", 2}},
                                                                            {{"data", 4}, {"zero", 1}},
                                                                            {{"data", 2}, {"zero", 2}},
                                                                            {{"data", 2}, {"zero", 3}},
                                                                            {{"pipeline", 2}},
                                                                            {{"pipeline", 2}, {"data", 2}, {"zero", 1}},
                                                                            {{"tensor", 2}},
                                                                            {{"tensor", 2}, {"sequence", 1}},
                                                                            {{"tensor", 4}, {"sequence", 1}},
                                                                            {{"tensor", 4}},
                                                                            {{"tensor", 2}, {"pipeline", 2}},
                                                                            {{"tensor", 2}, {"pipeline", 2}, {"sequence", 1}}})
      for (const char* recompute : {"none", "cheap", "full", "cheap, bf16"}) {
        if (!drawn(fmt::format("{} {} {}", name, Json(parallel).dump(), recompute))) continue;
        Config c = config_of(parallel);
        const bool narrow = recompute == std::string("cheap, bf16");
        if (recompute == std::string("none")) c.train.global_batch = 16, c.parallel.sum_leaves = c.parallel.data;
        if (recompute == std::string("full"))
          c.train.global_batch = 16, c.parallel.sum_leaves = std::min<int64_t>(4, 2 * c.parallel.data);
        c.train.steps = 1, c.train.recompute = narrow ? Recompute::cheap : value_named<Recompute>(recompute).value(),
        c.precision.compute = narrow ? DType::bf16 : DType::f64;
        const Outcome run = trained(families.at(name), c);
        std::unique_ptr<Model> model = make_model(families.at(name), "test");
        const Mesh mesh = requested_mesh(c);
        const RunLayout layout = run_layout(c, mesh.ranks(), *model);
        for (int rank = 0; rank < mesh.ranks(); ++rank) {
          const Ranks fake = Ranks::fake(mesh, rank);
          const Communication plan =
              StepEngine(*model, c, Types::of(narrow ? DType::bf16 : DType::f64), ref_kernels(),
                         {.rows = 1, .columns = kColumns, .micro_batches = layout.micro_batches, .leaves = layout.leaves},
                         nullptr, &fake)
                  .communication();
          for (const auto& [a, want] : sent_by(plan))
            EXPECT_EQ(run.sent.at(a)[static_cast<size_t>(rank)], want) << fmt::format(
                "{}, {}, recompute {}, rank {}, {}", name, Json(parallel).dump(), recompute, rank, ravine::name(a));
        }
      }
  }
}

}  // namespace test_parallel_ranks
}  // namespace ravine

// Experts divided over data ranks: what one rank computes, bit for bit, whoever has which expert and however few tokens
// it gets.
#include "engine/flat.h"
#include "tests/unit/train_on_ranks.h"

namespace ravine {
namespace test_expert_ranks {

using Parallel = std::map<std::string, int64_t>;

const std::vector<Parallel> kDivided{{{"data", 2}, {"expert", 2}},
                                     {{"data", 2}, {"expert", 2}, {"zero", 1}},
                                     {{"data", 2}, {"expert", 2}, {"zero", 2}},
                                     {{"data", 2}, {"expert", 2}, {"zero", 3}},
                                     {{"data", 4}, {"expert", 2}},
                                     {{"data", 4}, {"expert", 2}, {"zero", 1}},
                                     {{"data", 4}, {"expert", 2}, {"zero", 2}},
                                     {{"data", 4}, {"expert", 2}, {"zero", 3}},
                                     {{"data", 4}, {"expert", 4}},
                                     {{"data", 4}, {"expert", 4}, {"zero", 3}},
                                     {{"data", 2}, {"expert", 2}, {"pipeline", 2}},
                                     {{"data", 2}, {"expert", 2}, {"pipeline", 2}, {"zero", 1}}};

TEST(ExpertRanks, KeepEveryBit) {
  const auto families = families_for_ranks();
  for (const std::string name : {"mixtral", "qwen2_moe"}) {
    const Outcome one = trained(families.at(name), config_of({}));
    EXPECT_GT(std::abs(one.losses[0] - one.losses[2]), 1e-3) << name << ": it learns";
    for (const Parallel& parallel : kDivided)
      expect_same(one, trained(families.at(name), config_of(parallel)), fmt::format("{}, {}", name, Json(parallel).dump()));
  }
}

TEST(ExpertRanks, KeepEveryBitInBf16WithEveryRecompute) {
  const Json shape = families_for_ranks().at("qwen2_moe");
  for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::full}) {
    auto config = [&](const Parallel& parallel) {
      Config c = config_of(parallel);
      c.precision.compute = DType::bf16, c.train.recompute = recompute, c.optimizer.lr = 0.05, c.parallel.sum_leaves = 8;
      c.train.steps = 2;
      return c;
    };
    const Outcome one = trained(shape, config({}));
    for (const Parallel& parallel :
         std::vector<Parallel>{{{"data", 2}, {"expert", 2}}, {{"data", 4}, {"expert", 2}, {"zero", 3}}})
      expect_same(one, trained(shape, config(parallel)), fmt::format("{}, {}", ravine::name(recompute), Json(parallel).dump()));
  }
}

// Expert and tensor ranks together: each has a part of some experts.
TEST(ExpertRanks, WithTensorRanks) {
  const auto families = families_for_ranks();
  for (const std::string name : {"mixtral", "qwen2_moe"}) {
    const Outcome one = trained(families.at(name), config_of({}));
    for (const Parallel& parallel : std::vector<Parallel>{{{"data", 2}, {"expert", 2}, {"tensor", 2}},
                                                          {{"data", 2}, {"expert", 2}, {"tensor", 2}, {"zero", 3}},
                                                          {{"data", 2}, {"expert", 2}, {"tensor", 2}, {"sequence", 1}}})
      expect_near(one, trained(families.at(name), config_of(parallel)), fmt::format("{}, {}", name, Json(parallel).dump()));
  }
}

// Capacities drop some choices, or make rows of none; two tokens leave most experts, and some ranks, without any.
TEST(ExpertRanks, CapacitiesAndIdleRanks) {
  const auto families = families_for_ranks();
  auto compare = [&](const std::string& what, const Json& shape, const std::function<void(Config&)>& change) {
    auto config = [&](const Parallel& parallel) {
      Config c = config_of(parallel);
      c.train.steps = 2;
      change(c);
      return c;
    };
    const Outcome one = trained(shape, config({}));
    for (const Parallel& parallel :
         std::vector<Parallel>{{{"data", 2}, {"expert", 2}}, {{"data", 4}, {"expert", 4}, {"zero", 2}}})
      expect_same(one, trained(shape, config(parallel)), fmt::format("{}, {}", what, Json(parallel).dump()));
    return one;
  };
  for (const Drop drop : {Drop::position, Drop::rank, Drop::probs})
    for (const bool padded : {false, true}) {
      const Outcome one = compare(fmt::format("{}, {}", name(drop), padded), families.at("mixtral"), [&](Config& c) {
        c.moe.drop = drop, c.moe.capacity_factor = 0.75, c.moe.pad_to_capacity = padded, c.moe.z_loss = 0.01;
      });
      EXPECT_GT(one.routers[2], 0) << "some are dropped";  // behind both losses the drop rate of layer 0
    }
  Json many = families.at("qwen2_moe");
  many["num_experts"] = 16;
  const Outcome one = compare("idle", many, [](Config& c) { c.data.sequence_length = 3; });
  EXPECT_GT(*std::max_element(one.routers.begin(), one.routers.end()), 2) << "experts stand idle";
}

// If every expert computes as many rows as its capacity, the bytes of messages are known before.
TEST(ExpertRanks, SendWhatThePlanPredicts) {
  const Json shape = families_for_ranks().at("mixtral");
  for (const Parallel& parallel : kDivided) {
    Config c = config_of(parallel);
    c.train.steps = 1, c.moe.drop = Drop::position, c.moe.capacity_factor = 1, c.moe.pad_to_capacity = true;
    const Outcome run = trained(shape, c);
    const std::unique_ptr<Model> model = with_experts(make_model(shape, "test"), c);
    const Mesh mesh = requested_mesh(c);
    const RunLayout layout = run_layout(c, mesh.ranks(), *model);
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const Ranks fake = Ranks::fake(mesh, rank);
      const StepEngine planned(*model, c, Types::of(DType::f64), ref_kernels(),
                               {.rows = 1, .columns = kColumns, .micro_batches = layout.micro_batches, .leaves = layout.leaves},
                               nullptr, &fake);
      EXPECT_GT(planned.communication().expert, 0);
      for (const auto& [axis, want] : sent_by(planned.communication()))
        EXPECT_EQ(run.sent.at(axis)[static_cast<size_t>(rank)], want)
            << Json(parallel).dump() << ", rank " << rank << ", " << ravine::name(axis);
    }
  }
}

TEST(ExpertRanks, RanksOfExperts) {
  const std::unique_ptr<Model> model = make_model(families_for_ranks().at("mixtral"), "test");
  const Param& up = *model->params().find("model.layers.1.mlp.experts.up_proj.weight");
  const Mesh mesh{.data = 4, .tensor = 2, .expert = 2};
  EXPECT_EQ(local_shape(up, mesh).text(), Shape({2, 32, 16}).text());
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const Coordinates at = coordinates_of(mesh, rank);
    EXPECT_EQ(local_begin(up, at, mesh), (std::vector<int64_t>{2 * (at.data % 2), 32 * at.tensor, 0})) << rank;
  }
}

TEST(ExpertRanks, RefusalsNameTheFix) {
  const auto families = families_for_ranks();
  auto refused = [&](const std::string& family, const Parallel& parallel, OptimizerType type = OptimizerType::adamw) {
    Config c = config_of(parallel);
    c.optimizer.type = type;
    try {
      run_layout(c, requested_mesh(c).ranks(), *make_model(families.at(family), "test"));
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas no: " << part;
  };
  const std::string data = refused("mixtral", {{"data", 2}, {"expert", 4}});
  contains(data, "parallel.expert=4 (parallel.expert): the 2 data ranks must be a multiple of it"),
      contains(data, "parallel.expert=2");
  contains(refused("mixtral", {{"data", 8}, {"expert", 8}}), "the 4 experts of a layer must be a multiple of it");
  contains(refused("llama", {{"data", 2}, {"expert", 2}}), "the model has no experts");
  contains(refused("mixtral", {{"data", 2}, {"expert", 2}}, OptimizerType::lamb), "norms of whole tensors");
}

}  // namespace test_expert_ranks
}  // namespace ravine

// Tests of parallel.* for a number of ranks: meshes that fit, leaves, micro batches of a rank; errors with the values
// that fit; the layout as text.
#include "step/layout.h"

#include <gtest/gtest.h>

#include <set>

#include "parallel/fit.h"
#include "parallel/stage.h"
#include "tests/unit/rank_threads.h"

namespace ravine {
namespace test_step_layout {

// 6 layers, 12 heads, 4 of keys and values, a vocabulary that nothing divides; 24 micro batches a step.
struct Deep {
  Deep() {
    config.train.global_batch = 48;
    config.train.micro_batch = 2;
    model = make_model(Json{{"model_type", "llama"},
                            {"hidden_size", 48},
                            {"intermediate_size", 96},
                            {"num_hidden_layers", 6},
                            {"num_attention_heads", 12},
                            {"num_key_value_heads", 4},
                            {"vocab_size", 101},
                            {"max_position_embeddings", 64}},
                       "test");
  }
  RunLayout layout(int ranks, std::optional<int64_t> leaves = {}) const { return run_layout(config, ranks, *model, leaves); }
  std::string refused(int ranks) const {
    try {
      layout(ranks);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  }
  Config config;
  std::unique_ptr<Model> model;
};
struct Layouts : testing::Test, Deep {};

TEST_F(Layouts, DataRanksAreWhatIsLeft) {
  config.parallel.tensor = 2, config.parallel.pipeline = 3;
  const RunLayout l = layout(24);
  EXPECT_EQ(l.mesh, (Mesh{3, 4, 2}));
  EXPECT_EQ(l.micro_batches, 6);
  EXPECT_EQ(l.sum_leaves, 4) << "one of each data rank";
  EXPECT_EQ(l.leaves, 1);
  EXPECT_EQ(l.text(), "data 4 x tensor 2 x pipeline 3");
  config.parallel.sum_leaves = 12;
  EXPECT_EQ(layout(24).sum_leaves, 12);
  EXPECT_EQ(layout(24).leaves, 3);
  config.parallel.data = 2;
  EXPECT_EQ(layout(12).mesh, (Mesh{3, 2, 2}));
  config.parallel = {};
  EXPECT_EQ(layout(1).text(), "alone");
  EXPECT_EQ(layout(1).micro_batches, 24);
}

TEST_F(Layouts, ZeroTwoAndThreeTakeMicroBatchesInTurns) {
  for (int64_t zero : {0, 1, 2, 3}) {
    config.parallel.zero = zero;
    EXPECT_EQ(layout(4).round_robin, zero >= 2) << zero;
  }
}

TEST_F(Layouts, LeavesOfACheckpointHoldWhereTheyFitAndNothingElseIsSet) {
  EXPECT_EQ(layout(2, 8).sum_leaves, 8);
  EXPECT_EQ(layout(2, 8).leaves, 4);
  EXPECT_EQ(layout(4, 8).leaves, 2);
  EXPECT_EQ(layout(2, 3).sum_leaves, 2) << "3 leaves are not for 2 ranks";
  EXPECT_EQ(layout(1, 7).sum_leaves, 1) << "7 do not divide 24 micro batches";
  EXPECT_EQ(layout(2, 0).sum_leaves, 2);
  config.parallel.sum_leaves = 4;
  EXPECT_EQ(layout(2, 8).sum_leaves, 4) << "what is asked for counts";
}

TEST_F(Layouts, RefusalsNameWhatWouldDo) {
  struct Case {
    const char* what;
    int ranks;
    std::function<void(Config&)> change;
    std::vector<const char*> words;
  };
  const std::vector<Case> cases = {
      {"not the ranks",
       5,
       [](Config& c) { c.parallel.data = 3; },
       {"parallel.data=3 on 5 ranks", "data x tensor x pipeline must be the number of ranks (mpirun -n 5)",
        "use parallel.data=1 parallel.pipeline=5"}},
      {"alone",
       1,
       [](Config& c) { c.parallel.tensor = 2, c.parallel.data = 2; },
       {"parallel.data=2 parallel.tensor=2 on one rank", "mpirun -n 4 ravine"}},
      {"micro batches",
       16,
       [](Config&) {},
       {"24 micro batches over 16 data ranks",
        "train.global_batch / train.micro_batch = 24 must be a multiple of the data ranks", "use parallel.data=8"}},
      {"heads",
       5,
       [](Config& c) { c.parallel.tensor = 5; },
       {"parallel.tensor=5", "the 12 attention heads must be a multiple of it"}},
      {"key/value heads",
       3,
       [](Config& c) { c.parallel.tensor = 3; },
       {"the 4 key/value heads must be a multiple of it, or divide it"}},
      {"copies of key/value heads",
       6,
       [](Config& c) { c.parallel.tensor = 6; },
       {"parallel.tensor=6", "the 4 key/value heads must be a multiple of it, or divide it"}},
      {"layers",
       8,
       [](Config& c) { c.parallel.pipeline = 8; },
       {"8 stages of 1 part ", "every part needs one of the model's 6 layers"}},
      {"parts",
       4,
       [](Config& c) { c.parallel.pipeline = 4, c.parallel.virtual_stages = 2; },
       {"4 stages of 2 parts", "every part needs one of the model's 6 layers"}},
      {"interleaved",
       6,
       [](Config& c) {
         c.parallel.pipeline = 3, c.parallel.data = 2, c.parallel.virtual_stages = 2, c.train.global_batch = 16;
       },
       {"4 micro batches per rank on 3 stages", "in groups of as many as there are stages"}},
      {"interleaved, of one rank",
       4,
       [](Config& c) {
         c.parallel.pipeline = 2, c.parallel.data = 2, c.parallel.virtual_stages = 2, c.train.global_batch = 12;
       },
       {"3 micro batches per rank on 2 stages", "in groups of as many as there are stages"}},
      {"leaves",
       4,
       [](Config& c) { c.parallel.sum_leaves = 6; },
       {"parallel.sum_leaves is 6", "it must be a multiple of the 4 data ranks and divide the 24 micro batches",
        "use one of 4, 8, 12, 24"}},
      {"many leaves",
       1,
       [](Config& c) { c.parallel.sum_leaves = c.train.global_batch = 514, c.train.micro_batch = 1; },
       {"514 for each of 1 data rank", "at most 256 leaves"}},
  };
  for (const Case& k : cases) {
    Deep at;
    k.change(at.config);
    const std::string what = at.refused(k.ranks);
    for (const char* word : k.words) EXPECT_NE(what.find(word), std::string::npos) << k.what << ": " << what;
  }
  config.parallel.sum_leaves = config.train.global_batch = 256, config.train.micro_batch = 1;
  EXPECT_EQ(refused(1), "") << "256 are allowed";
}

// An axis that was set and must be 1 is among the options to set: else the old value would still apply.
TEST(NearestMeshes, name_what_is_given_up) {
  const auto no_tensor = [](const Mesh& m) { return m.tensor == 1; };
  const auto those = [](const std::function<bool(const Mesh&)>& fits) {
    return [fits](int ranks) {
      std::vector<Mesh> out;
      for (int p = 1; p <= ranks; ++p)
        for (int t = 1; t <= ranks / p; ++t)
          if (Mesh m{p, ranks / p / t, t}; ranks % (p * t) == 0 && fits(m)) out.push_back(m);
      return out;
    };
  };
  EXPECT_EQ(nearest_meshes(3, {1, 1, 2}, those(no_tensor)),
            "use parallel.data=3 parallel.tensor=1, or parallel.data=1 parallel.tensor=1 parallel.pipeline=3");
  EXPECT_EQ(nearest_meshes(3, {1, 1, 2}, those([&](const Mesh& m) { return no_tensor(m) && m.ranks() == 2 && m.data == 2; })),
            "start 2 ranks: parallel.data=2 parallel.tensor=1");
}

// meshes_of lists what run_layout takes, and nothing else.
TEST_F(Layouts, MeshesAreThoseThatAreTaken) {
  for (int64_t chunks : {1, 2})
    for (int ranks : {1, 2, 4, 6, 12, 16, 24}) {
      config.parallel = {};
      config.parallel.virtual_stages = chunks;
      std::set<std::tuple<int, int, int>> listed, taken;
      for (const Mesh& m : meshes_of(ranks, config.parallel, *model, micro_batches_of(config)))
        EXPECT_TRUE(listed.insert({m.pipeline, m.data, m.tensor}).second);
      for (int p = 1; p <= ranks; ++p)
        for (int t = 1; t <= ranks; ++t) {
          if (ranks % (p * t)) continue;
          config.parallel.pipeline = p, config.parallel.tensor = t, config.parallel.data = ranks / p / t;
          if (refused(ranks).empty()) taken.insert({p, ranks / p / t, t});
        }
      EXPECT_EQ(listed, taken) << ranks << " ranks, " << chunks << " parts";
      EXPECT_FALSE(taken.empty());
    }
}

// For running, batches do not matter.
TEST_F(Layouts, MeshesToRunOn) {
  ParallelOptions o;
  auto refusal = [&](int ranks) -> std::string {
    try {
      mesh_of(o, ranks, *model);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  o.tensor = 2, o.pipeline = 2;
  EXPECT_EQ(mesh_of(o, 8, *model), (Mesh{2, 2, 2}));
  EXPECT_NE(refusal(6).find("parallel.tensor=2 parallel.pipeline=2 on 6 ranks"), std::string::npos) << refusal(6);
  o = {};
  o.tensor = 3;
  EXPECT_NE(refusal(3).find("4 key/value heads"), std::string::npos) << refusal(3);
  o = {};
  o.pipeline = 7;
  EXPECT_NE(refusal(7).find("7 stages of 1 part"), std::string::npos) << refusal(7);
  o.pipeline = 3, o.virtual_stages = 3;
  EXPECT_NE(refusal(3).find("3 stages of 3 parts"), std::string::npos) << refusal(3);
  o.virtual_stages = 2;
  EXPECT_EQ(mesh_of(o, 3, *model), (Mesh{3, 1, 1}));
}

TEST_F(Layouts, InWords) {
  config.parallel.tensor = 2, config.parallel.pipeline = 2, config.parallel.data = 2, config.parallel.stage_layers = {4, 2};
  const std::vector<std::string> hosts = {"a", "a", "a", "a", "b", "b", "c", "c"};
  EXPECT_EQ(mesh_lines(config, layout(8), *model, hosts),
            (std::vector<std::string>{"stage 0: the embedding and layers 0-3, on ranks 0 1 2 3 (a)",
                                      "stage 1: layers 4-5 and the head, on ranks 4 5 6 7 (b, c)",
                                      "ranks that share each layer: 0 1 | 2 3 | 4 5 | 6 7",
                                      "ranks that add their gradients: 0 2 | 1 3 | 4 6 | 5 7"}));
  EXPECT_EQ(layers_of_parts(*model, config), (std::vector<int64_t>{4, 2}));
  config.parallel.zero = 1, config.parallel.tensor = 1, config.parallel.data = 1, config.parallel.virtual_stages = 2,
  config.parallel.stage_layers = {1, 2, 2, 1};
  EXPECT_EQ(mesh_lines(config, layout(2), *model, {}),
            (std::vector<std::string>{"stage 0: the embedding and layer 0; layers 3-4, on rank 0",
                                      "stage 1: layers 1-2; layer 5 and the head, on rank 1"}));
  EXPECT_EQ(layers_of_parts(*model, config), (std::vector<int64_t>{1, 2, 2, 1}));
  config.parallel = {};
  config.parallel.zero = 1;
  EXPECT_EQ(mesh_lines(config, layout(12), *model, {}),
            (std::vector<std::string>{"ranks that add their gradients and divide what ZeRO divides: 0 1 .. 11"}));
  EXPECT_TRUE(mesh_lines(config, layout(1), *model, {}).empty());
  EXPECT_EQ(layers_of_parts(*model, config), (std::vector<int64_t>{6}));
}

TEST_F(Layouts, PartsOfTheModelByTheirLayers) {
  auto parts = [&](int n, const std::vector<int64_t>& list) {
    std::vector<std::pair<size_t, size_t>> out;
    for (const BlockRange& r : split_model(*model, n, list)) out.emplace_back(r.begin, r.end);
    return out;
  };
  using Parts = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(parts(1, {}), (Parts{{0, 8}}));
  EXPECT_EQ(parts(4, {}), (Parts{{0, 3}, {3, 5}, {5, 6}, {6, 8}})) << "the earlier take more";
  EXPECT_EQ(parts(2, {5, 1}), (Parts{{0, 6}, {6, 8}}));
  for (const std::vector<int64_t>& bad : std::vector<std::vector<int64_t>>{{6}, {3, 2}, {3, 4}, {2, 2, 2}})
    EXPECT_THROW(parts(2, bad), UserError);
  EXPECT_THROW(parts(7, {}), UserError);
  EXPECT_EQ(stages_of_units(*model, split_model(*model, 4, {}), 2), (std::vector<int>{0, 0, 0, 1, 1, 0, 1, 1}))
      << "parts go round the stages";
}

TEST(SameEverywhere, TheFirstLineThatDiffersIsShown) {
  const char* texts[] = {"a: 1\nb: 2\nc: 3\n", "a: 1\nb: 2\nc: 3\n", "a: 1\nb: 4\nc: 5\n"};
  std::string what;
  std::mutex mutex;
  on_ranks({1, 3, 1}, [&](const Ranks& ranks) {
    EXPECT_NO_THROW(check_same(ranks.all(), "config", "alike"));
    try {
      check_same(ranks.all(), "config", texts[ranks.rank()]);
      ADD_FAILURE();
    } catch (const UserError& e) {
      std::lock_guard lock(mutex);
      what = e.what();
    }
  });
  for (const char* word : {"ranks differ in their config", "rank 2", "it has 'b: 4', rank 0 has 'b: 2'"})
    EXPECT_NE(what.find(word), std::string::npos) << what;
}

}  // namespace test_step_layout
}  // namespace ravine

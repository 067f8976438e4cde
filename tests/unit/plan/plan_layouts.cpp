// Plans of layouts that are not there: published recipes fit their ranks, 1024 ranks in one process, decisions,
// predicted times.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "config/load.h"
#include "kernels/backend.h"
#include "plan/decide.h"
#include "plan/estimate.h"
#include "runs/open.h"
#include "tests/unit/tiers.h"

namespace ravine {
namespace test_plan_layouts {

namespace fs = std::filesystem;
const std::string kConfigs = RAVINE_SOURCE_DIR "/configs/";
constexpr int64_t kGiB = int64_t{1} << 30;

Kernels cpu() { return backend_kernels(Backend::cpu, Bf16Products::widen); }

Rates usual(int local = 1) {
  Rates r;
  r.flops_f32 = r.flops_bf16 = 1e11;
  r.bytes = 2e10;
  r.local = local;
  r.messages = guessed_messages(2e10, 2);
  return r;
}

// Every run file of a published recipe names the ranks and the layout that it was trained on.
TEST(Recipes, EachFitsTheRanksOfItsTable) {
  int found = 0;
  Drawn drawn(5);  // of 17
  for (const auto& e : fs::directory_iterator(kConfigs)) {
    if (e.path().extension() != ".yaml") continue;
    std::ifstream in(e.path());
    int ranks = 0;
    std::string parallel;
    for (std::string line; std::getline(in, line);) {
      size_t at = line.find("on "), cut = line.find(" ranks: parallel: ");
      if (line[0] == '#' && at != std::string::npos && cut != std::string::npos)
        ranks = std::stoi(line.substr(at + 3)), parallel = line.substr(cut + 8);
    }
    if (ranks == 0) continue;
    ++found;
    if (!drawn(e.path().filename().string())) continue;
    std::ifstream again(e.path());
    std::string yaml(std::istreambuf_iterator<char>(again), {});
    Config c = parse_config(yaml + parallel + "\n", e.path().string());
    c.model.config = kConfigs + "../" + c.model.config;
    std::unique_ptr<Model> model = open_run_model(c);
    RunLayout layout;
    ASSERT_NO_THROW(layout = run_layout(c, ranks, *model)) << e.path();
    EXPECT_EQ(layout.mesh.ranks(), ranks);
    int64_t bytes = plan_ranks(*model, c, layout, Types::of(DType::bf16), cpu(), c.data.sequence_length).bytes;
    EXPECT_LT(bytes, 64 * kGiB) << e.path() << ": " << static_cast<double>(bytes) / kGiB << " GiB";
    // And no less than its share of masters, moments and gradients in f32, which ZeRO 2 divides.
    int64_t share = model->params().count() / ranks * 16;
    EXPECT_GT(bytes, share) << e.path();
  }
  EXPECT_EQ(found, 17);
}

TEST(Plan, OneProcessPlaysAnyOf1024Ranks) {
  Config c = parse_config(
      "train: {global_batch: 1024, micro_batch: 1}\ndata: {sequence_length: 512}\nprecision: {compute: bf16}\n"
      "parallel: {tensor: 8, pipeline: 8, sequence: true, zero: 1}\n",
      "test");
  c.model.config = kConfigs + "models/llama2-70b.json";
  std::unique_ptr<Model> model = open_run_model(c);
  RunLayout layout = run_layout(c, 1024, *model);
  EXPECT_EQ(layout.mesh.data, 16);
  EXPECT_EQ(layout.micro_batches, 64);
  std::map<int64_t, int> weights;  // by rank: all of a stage are alike
  Communication sent;
  for (int rank : {0, 7, 127, 128, 500, 896, 1023}) {
    Ranks fake = Ranks::fake(layout.mesh, rank);
    StepEngine engine(*model, c, Types::of(DType::bf16), cpu(), {1, 512, layout.micro_batches, false, layout.leaves}, nullptr,
                      &fake);
    ++weights[engine.memory().weights];
    if (rank == 500) sent = engine.communication();
    EXPECT_LT(engine.memory().arena.total, 20 * kGiB);
  }
  EXPECT_EQ(weights.size(), 3u) << "first, middle and last stage";
  EXPECT_GT(sent.data, 0);
  EXPECT_GT(sent.tensor, sent.pipeline);
  StepEstimate e = estimate_step(*model, c, layout, Types::of(DType::bf16), 512, usual(),
                                 block_costs(*model, c, Types::of(DType::bf16), cpu(), 512, usual()));
  EXPECT_GT(e.seconds, model->training_flops_per_token(512) * 1024 * 512 / 1024 / 1e11) << "faster than products allow";
  EXPECT_GT(e.bubble, 7.0 / (64 + 7) * 0.8);
  std::vector<std::string> lines = mesh_lines(c, layout, *model, {});
  EXPECT_EQ(lines.size(), 10u);
  EXPECT_EQ(lines[0].find("stage 0: the embedding and layers 0-9, on ranks 0 1 .. 127"), 0u) << lines[0];
  EXPECT_NE(lines[7].find("and the head, on ranks 896 897 .. 1023"), std::string::npos) << lines[7];
}

// The plan reports the rank that needs most memory, and the rank that sends most. With a large vocabulary both are on
// the last stage, which has the head and its gradients.
TEST(Plan, TheStageThatNeedsMostCounts) {
  Config c =
      parse_config("train: {global_batch: 8, micro_batch: 1}\ndata: {sequence_length: 32}\nparallel: {pipeline: 4}\n", "test");
  std::set<int64_t> programs;
  for (const std::vector<int64_t>& layers : {std::vector<int64_t>{1, 1, 1, 5}, {5, 1, 1, 1}, {1, 5, 1, 1}}) {
    c.parallel.stage_layers = layers;
    const std::unique_ptr<Model> model = make_model(Json{{"model_type", "llama"},
                                                         {"hidden_size", 64},
                                                         {"intermediate_size", 128},
                                                         {"num_hidden_layers", 8},
                                                         {"num_attention_heads", 4},
                                                         {"vocab_size", 101}},
                                                    "test");
    const RunLayout layout = run_layout(c, 4, *model);
    int64_t most = 0, sent = 0;
    std::set<int64_t> all;
    for (int stage = 0; stage < 4; ++stage) {
      const Ranks at = Ranks::fake(layout.mesh, stage);
      const StepEngine one(*model, c, Types::of(DType::f32), cpu(),
                           {.rows = 1, .columns = 32, .micro_batches = layout.micro_batches, .leaves = layout.leaves}, nullptr,
                           &at);
      all.insert(one.memory().total() - one.memory().base);
      most = std::max(most, one.memory().total() - one.memory().base), sent = std::max(sent, one.communication().all());
    }
    EXPECT_GT(all.size(), 2u);
    const PlannedStep planned = plan_ranks(*model, c, layout, Types::of(DType::f32), cpu(), 32);
    EXPECT_EQ(planned.sent.all(), sent);
    programs.insert(planned.bytes - most);
  }
  EXPECT_EQ(programs.size(), 1u)
      << "the program itself counts alike in all; another stage than the one that needs most was taken for some";
}

struct Small : testing::Test {
  Config c = parse_config("train: {global_batch: 16, micro_batch: 1}\ndata: {sequence_length: 128}\n", "test");
  std::unique_ptr<Model> model;
  Types types = Types::of(DType::f32);
  Small() {
    c.model.config = kConfigs + "llama-demo.json";
    model = open_run_model(c);
  }
  Decision decided(int64_t bytes, int ranks = 4) { return decide(*model, c, Backend::cpu, ranks, 128, bytes); }
};

TEST_F(Small, DecisionsTakeTheCheapestThatFits) {
  Decision all = decided(1);
  EXPECT_EQ(all.choice(), nullptr);
  std::vector<std::string> order;
  for (const DecisionStep& s : all.steps) order.push_back(s.setting);
  EXPECT_EQ(order, (std::vector<std::string>{"train.micro_batch=1", "parallel.zero=1", "train.recompute=full",
                                             "parallel.zero=2", "parallel.zero=3", "precision.compute=bf16"}));
  std::vector<int64_t> zero;
  for (const DecisionStep& s : all.steps) zero.push_back(s.trial.zero);
  EXPECT_EQ(zero, (std::vector<int64_t>{0, 1, 1, 2, 3, 3}));
  for (size_t i = 1; i < 5; ++i) EXPECT_LE(all.steps[i].bytes, all.steps[i - 1].bytes) << all.steps[i].setting;
  // With room for exactly one of them that one is chosen, and nothing after it but a larger micro batch.
  for (size_t i = 0; i < 5; ++i) {
    if (i > 0 && all.steps[i].bytes == all.steps[i - 1].bytes) continue;
    Decision d = decided(all.steps[i].bytes + (1 << 20));
    ASSERT_NE(d.choice(), nullptr) << i;
    EXPECT_EQ(d.choice()->trial.zero, all.steps[i].trial.zero) << i;
    EXPECT_EQ(d.choice()->trial.recompute, all.steps[i].trial.recompute) << i;
  }
  Decision roomy = decided(int64_t{1} << 40);
  EXPECT_EQ(roomy.choice()->trial.micro_batch, 4) << "the 16 sequences of a step over 4 ranks";
  EXPECT_EQ(roomy.choice()->trial.zero, 0);
}

TEST_F(Small, LayersByCostMakeRoomForTheHead) {
  c.parallel.pipeline = 2;
  BlockCosts costs = block_costs(*model, c, types, cpu(), 128, usual());
  ASSERT_EQ(costs.forward.size(), model->blocks().size());
  for (size_t b = 0; b < costs.forward.size(); ++b) EXPECT_GT(costs.forward[b], 0) << b;
  EXPECT_NEAR(costs.forward[1] / costs.forward[2], 1, 0.05) << "layers are alike";
  for (size_t b = 1; b + 1 < costs.forward.size(); ++b)
    EXPECT_GT(costs.later[b], 1.2 * costs.forward[b]) << "backward is twice the products";
  std::vector<int64_t> split = layers_by_cost(*model, c, types, cpu(), 128);
  EXPECT_EQ(std::accumulate(split.begin(), split.end(), int64_t{0}), model->facts().layers);
  // No other split has a faster slowest part.
  auto slowest = [&](int64_t first) {
    double a = 0, b = 0;
    for (size_t i = 0; i < costs.forward.size(); ++i)
      (i <= static_cast<size_t>(first) ? a : b) += costs.forward[i] + costs.later[i];
    return std::max(a, b);
  };
  for (int64_t n = 1; n < model->facts().layers; ++n) EXPECT_LE(slowest(split[0]), slowest(n) * (1 + 1e-12)) << n;
  EXPECT_GE(split[0], split[1]) << "the head is a part of the last stage";
}

TEST_F(Small, TimesFollowWhatALayoutDoes) {
  auto seconds = [&](int64_t data, int64_t pipeline, int64_t zero, Recompute recompute = Recompute::cheap, int64_t leaves = 0) {
    Config at = c;
    at.parallel.data = data, at.parallel.pipeline = pipeline, at.parallel.zero = zero, at.train.recompute = recompute,
    at.parallel.sum_leaves = leaves;
    RunLayout layout = run_layout(at, static_cast<int>(data * pipeline), *model);
    return estimate_step(*model, at, layout, types, 128, usual(), block_costs(*model, at, types, cpu(), 128, usual()));
  };
  double one = seconds(1, 1, 0).seconds;
  EXPECT_GT(seconds(2, 1, 0).seconds, one / 2);
  EXPECT_LT(seconds(2, 1, 0).seconds, one);
  EXPECT_GT(seconds(2, 1, 2).data, 2 * seconds(2, 1, 0).data) << "ZeRO 2 reduces every micro batch";
  EXPECT_GT(seconds(2, 1, 3).data, seconds(2, 1, 2).data);
  EXPECT_GT(seconds(1, 1, 0, Recompute::full).seconds, 1.15 * one);
  EXPECT_GT(seconds(1, 1, 0, Recompute::cheap, 16).leaves, 0);
  StepEstimate two = seconds(1, 2, 0);
  EXPECT_GT(two.bubble, 0.9 / 17);
  EXPECT_GT(two.seconds - two.update, (1 + 0.5 / 16) * two.compute) << "the last stage waits for the first of 16 micro batches";
}

TEST(Messages, BetweenMeasuredSizesAlongALine) {
  MessageRates r;
  r.ranks = 3;
  r.all_to_all = {{100, 1e-6}, {200, 3e-6}};
  EXPECT_DOUBLE_EQ(r.exchange(10, 3), 1e-6);
  EXPECT_DOUBLE_EQ(r.exchange(150, 3), 2e-6);
  EXPECT_DOUBLE_EQ(r.exchange(400, 3), 6e-6);
  EXPECT_DOUBLE_EQ(r.exchange(100, 5), 3e-6) << "4 pieces are handed over instead of 2";
  EXPECT_DOUBLE_EQ(r.exchange(100, 1), 0);
  r.all_gather = r.send = r.all_to_all;
  EXPECT_DOUBLE_EQ(MessageRates::from_json(Json::parse(r.json().dump()))->exchange(150, 3), 2e-6);
  for (const char* text : {"null", "{}", R"({"ranks":2,"all_to_all":[],"all_gather":[],"send":[]})",
                           R"({"ranks":2,"all_to_all":[[1]],"all_gather":[[1,2]],"send":[[1,2]]})"})
    EXPECT_FALSE(MessageRates::from_json(Json::parse(text))) << text;
}

}  // namespace test_plan_layouts
}  // namespace ravine

// Tests of the reports of a run and of the cached data of the machine: peaks, memory by phase of a step, norms of
// parameters on a rank.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/parallel.h"
#include "base/version.h"
#include "kernels/backend.h"
#include "parallel/initialise.h"
#include "plan/estimate.h"
#include "plan/machine.h"
#include "step/local_norms.h"
#include "step/memory_phases.h"
#include "tests/unit/train_help.h"

namespace ravine {
namespace test_train_shown {

namespace fs = std::filesystem;

// The file of peaks is by the kind of CPU, instruction set and number of threads.
TEST(Machine, PeaksOfTheCacheAreThoseOfThisMachine) {
  TemporaryFolder folder;
  setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  fs::create_directories(folder / "ravine");
  const std::string file = folder / "ravine/machine.json";
  const std::string key =
      fmt::format("{}, {}, {}, {} threads", program_version(), cpu_name(), cpu_instruction_set(), thread_count());
  Json peaks{{"f32_flops", 1e11},    {"bf16_flops", 2e11}, {"f32_product", 3e11},
             {"bf16_product", 4e11}, {"bf16_dot", 5e11},   {"sure", true}};
  auto keep = [&](const std::string& name, const Json& value) { spill(file, Json{{name, value}}.dump()); };
  keep(key, peaks);
  EXPECT_FALSE(known_machine_peaks(Peaks::all)) << "memory was not measured";
  ASSERT_TRUE(known_machine_peaks(Peaks::arithmetic));
  const MachinePeaks p = *known_machine_peaks(Peaks::arithmetic);
  EXPECT_TRUE(p.f32_flops == 1e11 && p.bf16_flops == 2e11 && p.f32_product == 3e11 && p.bf16_product == 4e11 &&
              p.bf16_dot == 5e11);
  EXPECT_EQ(machine_peaks(Peaks::arithmetic).f32_flops, 1e11) << "and is not measured again";
  raise_peak(DType::f32, 0.5e11);
  EXPECT_TRUE(known_machine_peaks(Peaks::arithmetic)->f32_flops == 1e11 && known_machine_peaks(Peaks::arithmetic)->sure);
  raise_peak(DType::f32, 2.5e11);
  const MachinePeaks raised = *known_machine_peaks(Peaks::arithmetic);
  EXPECT_TRUE(raised.f32_flops == 2.5e11 && raised.bf16_flops == 2.5e11 && raised.f32_product == 3e11 && !raised.sure);
  peaks["read_bytes"] = 6e10, peaks["copy_bytes"] = 7e10;
  keep(key, peaks);
  ASSERT_TRUE(known_machine_peaks(Peaks::all));
  EXPECT_TRUE(known_machine_peaks(Peaks::all)->read_bytes == 6e10 && known_machine_peaks(Peaks::all)->copy_bytes == 7e10);
  const Rates rates = known_rates(2);
  EXPECT_TRUE(rates.measured && rates.flops_f32 == 3e11 / 2 && rates.flops_bf16 == 4e11 / 2 && rates.bytes == 7e10 / 2)
      << "products and copies, shared by two";
  const int threads = thread_count();
  set_thread_count(threads + 1);
  EXPECT_FALSE(known_machine_peaks(Peaks::arithmetic)) << "of another number of threads";
  set_thread_count(threads);
  keep("another CPU", peaks);
  EXPECT_FALSE(known_machine_peaks(Peaks::arithmetic));
  for (const std::string& damaged :
       {std::string("{"), std::string("[]"), Json{{key, "text"}}.dump(), Json{{key, {{"f32_flops", 1}}}}.dump()}) {
    spill(file, damaged);
    EXPECT_FALSE(known_machine_peaks(Peaks::arithmetic)) << damaged;
  }
  // Without the variable, or where it says nothing, the home folder's cache.
  fs::create_directories(folder / "home/.cache/ravine");
  spill(folder / "home/.cache/ravine/machine.json", Json{{key, peaks}}.dump());
  const std::string home = getenv("HOME") ? getenv("HOME") : "";
  setenv("HOME", (folder / "home").c_str(), 1);
  setenv("XDG_CACHE_HOME", "", 1);
  EXPECT_TRUE(known_machine_peaks());
  unsetenv("XDG_CACHE_HOME");
  EXPECT_TRUE(known_machine_peaks());
  setenv("HOME", home.c_str(), 1);
}

TEST(MemoryPhases, HaveTheirFullestMoments) {
  PhaseArena a;
  auto of = [](const MemoryPhase& p, MemoryKind k) { return p.at_peak[static_cast<size_t>(k)]; };
  a.section("forward of micro batch 7");
  const ArenaBlock kept = a.allocate(640, MemoryKind::activations);
  const ArenaBlock scratch = a.allocate(6400, MemoryKind::workspace);
  a.release(scratch);
  const ArenaBlock more = a.allocate(64, MemoryKind::activations);
  a.section("forward of micro batch 8");
  a.section("backward of micro batch 7");
  const ArenaBlock gradient = a.allocate(128, MemoryKind::gradients);
  a.release(more);
  a.release(kept);
  a.section("backward of micro batch 8");
  a.section("update");
  const ArenaBlock last = a.allocate(1920, MemoryKind::workspace);
  a.release(last), a.release(gradient);
  a.section("valid");
  a.release(a.allocate(64, MemoryKind::activations));
  const struct {
    const char* name;
    int64_t activations, workspace, gradients;
  } want[] = {{"forward 0", 640, 6400, 0}, {"forward 1", 704, 0, 0}, {"backward 0", 704, 0, 128},
              {"backward 1", 0, 0, 128},   {"update", 0, 1920, 128}, {"validation", 64, 0, 0}};
  ASSERT_EQ(a.phases().size(), std::size(want));
  for (size_t i = 0; i < std::size(want); ++i) {
    const MemoryPhase& p = a.phases()[i];
    EXPECT_EQ(p.name, want[i].name);
    EXPECT_TRUE(of(p, MemoryKind::activations) == want[i].activations && of(p, MemoryKind::workspace) == want[i].workspace &&
                of(p, MemoryKind::gradients) == want[i].gradients)
        << p.name << ": " << of(p, MemoryKind::activations) << " " << of(p, MemoryKind::workspace) << " "
        << of(p, MemoryKind::gradients);
    EXPECT_EQ(p.total(), want[i].activations + want[i].workspace + want[i].gradients);
  }
}

// GPT-2 has two tables: words, and positions behind them. What health.embedding_norm asks about are the words.
TEST(LocalNorms, AreOfEachParameterAndTheEmbeddingIsThatOfWords) {
  const Json shape{
      {"model_type", "gpt2"},    {"n_embd", 8}, {"n_layer", 2}, {"n_head", 2}, {"n_positions", 32}, {"vocab_size", kVocabulary},
      {"initializer_range", 0.3}};
  const std::unique_ptr<Model> model = make_model(shape, "test");
  Config config;
  config.health.embedding_norm = 1e9;
  config.train.global_batch = 2, config.train.micro_batch = 2;
  config.optimizer.clip_norm = 0;
  StepEngine engine(*model, config, Types::of(DType::f64), backend_kernels(Backend::ref), {.rows = 2, .columns = kWidth});
  engine.allocate();
  initialise(model->params(), engine.store(), 1);
  EXPECT_EQ(gather_local_norms(engine, "*").size(),
            static_cast<size_t>(std::count_if(model->params().params().begin(), model->params().params().end(),
                                              [](const Param& p) { return !p.tied; })));
  const StepResult r = engine.run({made_up(1, 2, 1)}, 1, 0);
  std::map<std::string, double> squares;
  double sum = 0;
  for (const LocalNorm& n : gather_local_norms(engine, "*")) {
    ASSERT_EQ(n.ranks, std::vector<int>{0});
    squares[n.parameter] = n.squares[0];
    sum += n.squares[0];
  }
  EXPECT_NEAR(sum, r.grad_norm * r.grad_norm, 1e-12 * sum) << "together they are the norm of the step";
  ASSERT_TRUE(squares.contains("model.embed_positions.weight"));
  EXPECT_NE(squares.at("model.embed_tokens.weight"), squares.at("model.embed_positions.weight"));
  EXPECT_EQ(embedding_squares(engine), squares.at("model.embed_tokens.weight"));
  std::vector<std::string> some;
  for (const LocalNorm& n : gather_local_norms(engine, "model.layers.1.*norm.weight")) some.push_back(n.parameter);
  EXPECT_EQ(some, (std::vector<std::string>{"model.layers.1.input_layernorm.weight",
                                            "model.layers.1.post_attention_layernorm.weight"}));
}

}  // namespace test_train_shown
}  // namespace ravine

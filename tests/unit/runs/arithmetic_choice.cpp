// Tests of the arithmetic of a run: by the kind of CPU, by options, by the record of a checkpoint; and the changes that
// a resume allows.
#include <gtest/gtest.h>

#include "base/error.h"
#include "runs/run_record.h"
#include "step/arithmetic.h"

namespace ravine {
namespace test_arithmetic_choice {

CpuArithmetic of(const std::string& vendor, int family, int model, bool dot) {
  return cpu_arithmetic({.vendor = vendor, .family = family, .model = model, .bf16_dot = dot});
}

PrecisionOptions requested(std::optional<DType> compute, std::optional<Bf16Products> products = {}) {
  PrecisionOptions p;
  p.compute = compute, p.bf16_products = products;
  return p;
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

const CpuArithmetic kZen4 = of("AuthenticAMD", 25, 17, true), kZen3 = of("AuthenticAMD", 25, 1, false),
                    kXeon = of("GenuineIntel", 6, 207, true);

TEST(Arithmetic, FollowsTheKindOfCpu) {
  for (int family : {25, 26}) {
    const CpuArithmetic zen = of("AuthenticAMD", family, 17, true);
    EXPECT_TRUE(zen.bf16_dot && zen.bf16_faster && zen.products == Bf16Products::dot) << zen.why;
  }
  for (int model : {85, 143, 207, 173}) {
    const CpuArithmetic xeon = of("GenuineIntel", 6, model, true);
    EXPECT_TRUE(xeon.bf16_dot && !xeon.bf16_faster && xeon.products == Bf16Products::widen) << xeon.why;
  }
  for (const CpuArithmetic& c : {kZen3, of("GenuineIntel", 6, 85, false), of("AuthenticAMD", 23, 1, false)})
    EXPECT_TRUE(!c.bf16_dot && !c.bf16_faster && c.products == Bf16Products::widen) << c.why;
  // Unknown: widened, and f32, though the instruction may be asked for.
  for (const CpuArithmetic& c : {of("", 0, 0, true), of("AuthenticAMD", 27, 0, true), of("HygonGenuine", 25, 17, true),
                                 of("GenuineIntel", 19, 1, true)}) {
    EXPECT_TRUE(c.bf16_dot && !c.bf16_faster && c.products == Bf16Products::widen) << c.why;
    EXPECT_EQ(choose_arithmetic(requested(DType::bf16, Bf16Products::dot), Backend::cpu, c).products, Bf16Products::dot);
  }
  for (const CpuArithmetic& c : {kZen4, kZen3, kXeon, of("", 0, 0, true)}) EXPECT_FALSE(c.why.empty());
}

TEST(Arithmetic, ThisCpuIsTheSameEveryTime) {
  const CpuId first = cpu_id();
  EXPECT_EQ(first.vendor.size(), 12u);
  EXPECT_GT(first.family, 0);
  const Arithmetic chosen = choose_arithmetic(requested(std::nullopt), Backend::cpu, cpu_arithmetic(cpu_id()));
  for (int i = 0; i < 200; ++i) {
    const CpuId again = cpu_id();
    ASSERT_TRUE(again.vendor == first.vendor && again.family == first.family && again.model == first.model &&
                again.bf16_dot == first.bf16_dot);
    const Arithmetic a = choose_arithmetic(requested(std::nullopt), Backend::cpu, cpu_arithmetic(cpu_id()));
    ASSERT_TRUE(a.compute == chosen.compute && a.products == chosen.products);
  }
}

TEST(Arithmetic, OptionsDecideAndAutoFollows) {
  auto is = [](const Arithmetic& a, DType compute, Bf16Products products) {
    return a.compute == compute && a.products == products;
  };
  EXPECT_TRUE(is(choose_arithmetic(requested(std::nullopt), Backend::cpu, kZen4), DType::bf16, Bf16Products::dot));
  EXPECT_TRUE(is(choose_arithmetic(requested(std::nullopt), Backend::cpu, kXeon), DType::f32, Bf16Products::widen));
  EXPECT_TRUE(is(choose_arithmetic(requested(std::nullopt), Backend::ref, kZen4), DType::f32, Bf16Products::widen));
  EXPECT_TRUE(is(choose_arithmetic(requested(std::nullopt, Bf16Products::widen), Backend::cpu, kZen4), DType::f32,
                 Bf16Products::widen));
  EXPECT_TRUE(is(choose_arithmetic(requested(DType::bf16), Backend::cpu, kZen4), DType::bf16, Bf16Products::dot));
  EXPECT_TRUE(is(choose_arithmetic(requested(DType::bf16), Backend::cpu, kXeon), DType::bf16, Bf16Products::widen));
  EXPECT_TRUE(is(choose_arithmetic(requested(DType::bf16, Bf16Products::widen), Backend::cpu, kZen4), DType::bf16,
                 Bf16Products::widen));
  EXPECT_TRUE(
      is(choose_arithmetic(requested(DType::bf16, Bf16Products::dot), Backend::cpu, kXeon), DType::bf16, Bf16Products::dot));
  EXPECT_TRUE(is(choose_arithmetic(requested(DType::f32), Backend::cpu, kZen4), DType::f32, Bf16Products::widen))
      << "auto is no choice in f32";
  EXPECT_NE(error_of([] {
              choose_arithmetic(requested(DType::bf16, Bf16Products::dot), Backend::cpu, kZen3);
            }).find("no bf16 dot product"),
            std::string::npos);
  EXPECT_NE(error_of([] { choose_arithmetic(requested(DType::f64), Backend::cpu, kZen4); }).find("--backend ref"),
            std::string::npos);
  EXPECT_EQ(choose_arithmetic(requested(std::nullopt), Backend::cpu, kZen4).why, kZen4.why);
  EXPECT_EQ(choose_arithmetic(requested(DType::bf16, Bf16Products::dot), Backend::cpu, kZen4).why, "")
      << "nothing was left to choose";
}

RunRecord made_with(std::optional<DType> compute, std::optional<Bf16Products> products) {
  Config c;
  c.precision.compute = compute, c.precision.bf16_products = products;
  return run_record("step_000200", 200, Json{{"options", recorded_options(c, 1, 1)}}, "avx512", "manifest");
}

TEST(Resume, KeepsWhatAutoHadChosen) {
  auto kept = [](PrecisionOptions p, const RunRecord& was, const CpuArithmetic& cpu, Backend backend = Backend::cpu) {
    Config c;
    c.precision = p;
    keep_choices(c, was, backend, cpu);
    return fmt::format("{} {}", name_or(c.precision.compute, kAuto), name_or(c.precision.bf16_products, kAuto));
  };
  EXPECT_EQ(kept(requested(std::nullopt), made_with(DType::bf16, Bf16Products::widen), kZen4), "bf16 widen");
  EXPECT_EQ(kept(requested(DType::bf16), made_with(DType::bf16, Bf16Products::dot), kXeon), "bf16 dot");
  EXPECT_EQ(kept(requested(std::nullopt), made_with(DType::f32, std::nullopt), kZen4), "f32 auto");
  EXPECT_EQ(kept(requested(DType::bf16, Bf16Products::widen), made_with(DType::bf16, Bf16Products::dot), kZen4), "bf16 widen")
      << "what is asked for by name counts";
  const std::string refused =
      error_of([&] { kept(requested(std::nullopt), made_with(DType::bf16, Bf16Products::dot), kZen3); });
  EXPECT_NE(refused.find("step_000200 was made with bf16 dot products (precision.bf16_products)"), std::string::npos)
      << refused;
  EXPECT_NE(refused.find("set precision.bf16_products=widen"), std::string::npos) << refused;
  EXPECT_EQ(kept(requested(DType::bf16, Bf16Products::widen), made_with(DType::bf16, Bf16Products::dot), kZen3), "bf16 widen");
  EXPECT_EQ(kept(requested(DType::bf16), made_with(DType::bf16, Bf16Products::dot), kZen3, Backend::ref), "bf16 auto");
  // Older checkpoints say it by their instructions; some say nothing.
  EXPECT_EQ(kept(requested(std::nullopt),
                 run_record("s", 1, Json{{"compute", "bf16"}}, "avx512 with bf16 dot products", "manifest"), kXeon),
            "bf16 dot");
  EXPECT_EQ(kept(requested(std::nullopt), run_record("s", 1, Json{{"compute", "bf16"}}, "avx512", "manifest"), kZen4),
            "bf16 widen");
  EXPECT_EQ(kept(requested(std::nullopt), run_record("s", 1, Json::object(), "", "manifest"), kZen4), "auto auto");
}

TEST(Resume, NamesEveryChangeByItsRule) {
  Config was, now;
  now.train.steps = 7;
  now.train.micro_batch = 2;
  now.optimizer.lr = 0.5;
  now.data.loss_on = LossOn::last;
  now.sources["optimizer.lr"] = "run.yaml:3";
  const RunRecord record = run_record("step_000200", 200, Json{{"options", recorded_options(was, 2, 4)}}, "", "manifest");
  EXPECT_TRUE(option_changes(record, recorded_options(was, 2, 4), "").empty());
  const std::vector<OptionChange> changes = option_changes(record, recorded_options(now, 2, 4), "");
  std::vector<std::string> texts;
  for (const OptionChange& c : changes) texts.push_back(c.text());
  EXPECT_EQ(texts, (std::vector<std::string>{"data.loss_on: last, was answers", "train.steps: 7, was 1000",
                                             "train.micro_batch: 2, was 1", "optimizer.lr: 0.5, was 0.0003"}));
  EXPECT_EQ(changes[2].rule, OnResume::other_bits);
  const std::string refused = error_of([&] { refuse_other_options(record, changes, now); });
  EXPECT_NE(refused.find("data.loss_on is last, was answers; optimizer.lr is 0.5, was 0.0003 (default): step_000200"),
            std::string::npos)
      << refused;
  EXPECT_EQ(refused.find("train.steps is"), std::string::npos) << refused;
  now.optimizer.lr = was.optimizer.lr;
  const std::vector<OptionChange> of_data = option_changes(record, recorded_options(now, 2, 4), "");
  EXPECT_NE(error_of([&] { refuse_other_options(record, of_data, now); }).find("checkpoint.other_data=true"),
            std::string::npos);
  now.checkpoint.other_data = true;
  EXPECT_EQ(error_of([&] { refuse_other_options(record, of_data, now); }), "no error");
  // How many ranks there are is no option that was given.
  EXPECT_EQ(option_changes(record, recorded_options(was, 4, 4), "").at(0).name, "parallel.data");
}

TEST(Resume, ReadsAnyRecord) {
  for (const char* text :
       {"{}", R"({"options":{"no.such":"1"}})", R"({"layout":{"stage_layers":["a",null]}})", R"({"layout":{}})"}) {
    const RunRecord r = run_record("step_1", 1, Json::parse(text), "avx2", "manifest");
    EXPECT_TRUE(option_changes(r, recorded_options(Config(), 1, 1), "").empty()) << text;
    EXPECT_FALSE(r.layers || r.sum_leaves) << text;
  }
  for (auto [text, field] : {std::pair{R"({"options":[1]})", "options"},
                             {R"({"options":{"train.steps":5}})", "train.steps"},
                             {R"({"model":2})", "model"},
                             {R"({"seed":"x"})", "seed"},
                             {R"({"optimizer":3})", "optimizer"},
                             {R"({"compute":[]})", "compute"},
                             {R"({"layout":7})", "layout"},
                             {R"({"layout":{"stage_layers":7}})", "stage_layers"},
                             {R"({"sum_leaves":"y"})", "sum_leaves"}}) {
    const std::string error = error_of([&, text = text] { run_record("step_1", 1, Json::parse(text), "avx2", "manifest"); });
    EXPECT_TRUE(error.find(field) != std::string::npos && error.find("manifest") != std::string::npos) << text << ": " << error;
  }
  const RunRecord older = run_record(
      "step_1", 1, Json{{"optimizer", "sgd"}, {"seed", 7}, {"compute", "f32"}, {"layout", {{"stage_layers", {3, 1}}}}}, "",
      "manifest");
  EXPECT_EQ(older.layers, 4);
  EXPECT_EQ(option_changes(older, recorded_options(Config(), 1, 1), "").size(), 2u) << "optimizer and seed";
}

}  // namespace test_arithmetic_choice
}  // namespace ravine

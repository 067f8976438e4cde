// Several adapters in one batch: each prompt gets the answer of its adapter alone, and the base's matrices are read
// once per step for all.
#include "infer/prompt_models.h"

#include <gtest/gtest.h>

#include <map>

#include "infer/beams.h"

namespace ravine {
namespace test_infer_prompt_models {

const std::string kGolden = RAVINE_SOURCE_DIR "/tests/golden/";
const std::string kBase = kGolden + "lora/llama/base", kPeft = kGolden + "lora/layers/adapter",
                  kModelLink = kGolden + "megatron_lora/apart", kWhole = kGolden + "megatron_lora/joined";
using Prompts = std::vector<std::vector<int32_t>>;

// Counts the reads of the base's matrices by products, by path.
class BaseReads : public Observer {
 public:
  void before(const CallInfo& call) override {
    for (const NamedView& t : call.tensors)
      if (t.access == Access::read && std::string_view(call.op) == "matmul" && !call.store->params_in(t.view).empty())
        ++calls, bytes += t.view.bytes();
  }
  int64_t calls = 0, bytes = 0;
};

struct ModelsOnOneBase {
  explicit ModelsOnOneBase(DType type = DType::f64, Backend backend = Backend::ref, std::optional<BaseStorage> kept = {})
      : base(load_model(kBase, type, backend, OpenFor::running, Bf16Products::widen, {}, "", kept)),
        peft(load_on_base(base, kPeft)),
        modellink(load_on_base(base, kModelLink)) {}
  std::vector<PromptModel> prompt_models(const GenerateOptions& o) const { return {{&base, o}, {&peft, o}, {&modellink, o}}; }
  LoadedModel base, peft, modellink;
};

GenerateOptions options() {
  GenerateOptions o;
  o.max_new_tokens = 6;
  o.step_tokens = 5;  // prompts are read in pieces
  return o;
}
const Prompts kPrompts = {{5, 9, 17}, {4}, {5, 9, 17}, {8, 7, 6, 5, 4, 3, 2}, {5, 9, 17}, {11, 12}};
const std::vector<size_t> kOf = {2, 0, 1, 2, 0, 1};

void expect_same(const Generated& a, const Generated& b, const std::string& what) {
  EXPECT_EQ(a.ids, b.ids) << what;
  EXPECT_EQ(a.logprob, b.logprob) << what;
  EXPECT_EQ(a.finish, b.finish) << what;
  ASSERT_EQ(a.beams.size(), b.beams.size()) << what;
  for (size_t i = 0; i < a.beams.size(); ++i) EXPECT_EQ(a.beams[i].ids, b.beams[i].ids) << what << ", beam " << i;
}

// `run`(models, of, prompts) of all together, and of each prompt alone.
template <class Run>
void expect_as_alone(const ModelsOnOneBase& s, const GenerateOptions& o, Run&& run, const std::string& what) {
  const std::vector<PromptModel> prompt_models = s.prompt_models(o);
  const std::vector<Generated> got = run(std::span<const PromptModel>(prompt_models), std::span<const size_t>(kOf), kPrompts);
  ASSERT_EQ(got.size(), kPrompts.size());
  for (size_t i = 0; i < got.size(); ++i) {
    std::vector<PromptModel> one = {prompt_models[kOf[i]]};
    one[0].options.numbers = {i};
    expect_same(got[i], run(std::span<const PromptModel>(one), std::vector<size_t>{0}, Prompts{kPrompts[i]})[0],
                fmt::format("{}, prompt {}", what, i));
  }
}

TEST(PromptModels, EachIsAnsweredAsAlone) {
  const ModelsOnOneBase s;
  ASSERT_TRUE(s.peft.adapters && s.modellink.adapters);
  auto greedy = [](auto prompt_models, auto of, const Prompts& prompts) { return generate(prompt_models, of, prompts); };
  GenerateOptions o = options();
  expect_as_alone(s, o, greedy, "greedy");
  o.sample = true, o.seed = 3, o.batch = 2;
  expect_as_alone(s, o, greedy, "drawn, two at a time");
  o = options(), o.batch = 4;
  auto beams = [](auto prompt_models, auto of, const Prompts& prompts) {
    const std::vector<BeamOptions> b(prompt_models.size(), {.beams = 3});
    return generate_beams(prompt_models, b, of, prompts, 2);
  };
  expect_as_alone(s, o, beams, "beams");
  const ModelsOnOneBase in_blocks(DType::f64, Backend::ref, BaseStorage::nf4);
  expect_as_alone(in_blocks, options(), greedy, "a base in blocks of 4 bits");
  const std::vector<PromptModel> whole = s.prompt_models(options()), blocks = in_blocks.prompt_models(options());
  EXPECT_NE(generate(whole, kOf, kPrompts)[0].logprob, generate(blocks, kOf, kPrompts)[0].logprob);
}

TEST(PromptModels, AdaptersDiffer) {
  const ModelsOnOneBase s;
  std::vector<double> logprobs;
  for (const PromptModel& one : s.prompt_models(options()))
    logprobs.push_back(generate({&one, 1}, std::vector<size_t>{0}, {{5, 9, 17}})[0].logprob);
  EXPECT_TRUE(logprobs[0] != logprobs[1] && logprobs[1] != logprobs[2] && logprobs[0] != logprobs[2]);
}

TEST(PromptModels, TheBaseIsReadOncePerStep) {
  const ModelsOnOneBase s(DType::f32, Backend::cpu);
  const Prompts prompts = {{5, 9, 17}, {4, 8, 7}, {3, 2, 6}};
  auto count = [&](const std::vector<size_t>& of) {
    BaseReads reads;
    GenerateOptions o = options();
    o.step_tokens = 1024, o.observer = &reads;
    const std::vector<PromptModel> all = s.prompt_models(o);
    generate(all, of, prompts);
    return std::pair{reads.calls, reads.bytes};
  };
  const auto alone = count({0, 0, 0});
  EXPECT_GT(alone.first, 0);
  EXPECT_EQ(count({0, 1, 2}), alone);
  EXPECT_EQ(count({2, 1, 2}), alone);
}

TEST(PromptModels, TablesThatWereTrainedWholeShareNoBatch) {
  const ModelsOnOneBase s;
  const LoadedModel whole = load_on_base(s.base, kWhole);
  EXPECT_FALSE(whole.adapters);
  const std::vector<PromptModel> all = {{&s.base, options()}, {&whole, options()}};
  EXPECT_THROW(generate(all, std::vector<size_t>{0, 1}, {{5}, {6}}), Error);
  EXPECT_EQ(generate(all, std::vector<size_t>{1, 1}, {{5}, {6}}).size(), 2u);
}

}  // namespace test_infer_prompt_models
}  // namespace ravine

// Generation with a cache against running the whole context anew for each token, and its ends, errors and defaults.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "infer/beams.h"
#include "infer/generation_config.h"
#include "infer/generator.h"
#include "infer/kv_cache.h"
#include "infer/sampler.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/log_probability.h"
#include "tests/unit/small_models.h"

namespace ravine {
namespace test_infer_generate {

using Prompts = std::vector<std::vector<int32_t>>;

const Prompts kPrompts = {
    {5}, {1, 2, 3, 4, 5}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11, 12, 13, 14, 15, 16, 17}, {60, 30, 60}, {22, 23}};

struct Recomputed {
  Generated result;
  double largest = 0;  // of all logits on the way, by size
};

Recomputed recomputed(const LoadedModel& s, const std::vector<int32_t>& prompt, size_t number, const GenerateOptions& o) {
  Recomputed r;
  std::vector<int32_t> context = prompt;
  for (int64_t i = 0; i < o.max_new_tokens; ++i) {
    std::vector<float> logits = last_logits(s, context), scores = logits;
    for (float x : logits) r.largest = std::max(r.largest, std::abs(static_cast<double>(x)));
    process(scores, context, o.processing, o.sample);
    int32_t id = o.sample ? choose_at_random(scores, o.seed, number, context.size()) : choose_best(scores);
    r.result.logprob += log_probability(logits, id);
    context.push_back(id);
    r.result.ids.push_back(id);
  }
  return r;
}

void expect_same(const std::vector<Generated>& got, const LoadedModel& s, const GenerateOptions& o) {
  ASSERT_EQ(got.size(), kPrompts.size());
  for (size_t i = 0; i < got.size(); ++i) {
    Recomputed want = recomputed(s, kPrompts[i], i, o);
    EXPECT_EQ(got[i].ids, want.result.ids) << "prompt " << i;
    EXPECT_EQ(got[i].finish, Finish::length);
    // Logits are rounded to float before the logarithm: an epsilon of the chosen one, one of the sum, per token.
    double bound = 2 * std::numeric_limits<float>::epsilon() * want.largest * static_cast<double>(o.max_new_tokens);
    EXPECT_NEAR(got[i].logprob, want.result.logprob, bound) << "prompt " << i;
  }
}

TEST(Generate, CacheEqualsRunningTheWholeContext) {
  LoadedModel s = session_of(small_llama(64));
  GenerateOptions o;
  o.max_new_tokens = 10;
  expect_same(generate(s, kPrompts, o), s, o);
}

TEST(Generate, SlotsChunksAndOrderChangeNothing) {
  LoadedModel s = session_of(small_llama(64));
  GenerateOptions o;
  o.max_new_tokens = 12;
  o.sample = true;
  o.seed = 11;
  o.processing = {1.2, 3, 0.8, 20, 0.95};
  std::vector<Generated> first = generate(s, kPrompts, o);
  expect_same(first, s, o);
  for (auto [batch, step] : {std::pair{1, 512}, {2, 4}, {3, 1}, {5, 7}}) {
    o.batch = batch;
    o.step_tokens = step;
    std::vector<Generated> again = generate(s, kPrompts, o);
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(again[i].ids, first[i].ids) << "batch " << batch << ", step " << step << ", prompt " << i;
  }
  o.seed = 12;
  EXPECT_NE(generate(s, kPrompts, o)[2].ids, first[2].ids);
}

TEST(Generate, EndsAtAnEndIdAtTheLimitOrOnRequest) {
  LoadedModel s = session_of(small_llama(64));
  GenerateOptions o;
  o.max_new_tokens = 8;
  std::vector<Generated> plain = generate(s, kPrompts, o);
  o.end_ids = {plain[1].ids[2], 60};
  o.max_length = 20;
  std::vector<Generated> ended = generate(s, kPrompts, o);
  auto first_end =
      std::find_if(plain[1].ids.begin(), plain[1].ids.end(), [&](int32_t id) { return id == o.end_ids[0] || id == 60; });
  EXPECT_EQ(ended[1].finish, Finish::eos);
  EXPECT_EQ(ended[1].ids, std::vector<int32_t>(plain[1].ids.begin(), first_end + 1));
  for (size_t i = 0; i < ended.size(); ++i) EXPECT_LE(ended[i].ids.size() + kPrompts[i].size(), 20u);

  o.end_ids.clear();
  o.batch = 2;
  int polls = 0;
  size_t reported = 0;
  GenerateEvents events;
  events.token = [&](size_t prompt, int32_t) { return prompt != 1 || ++reported < 3; };
  events.stop = [&] { return ++polls > 5; };
  int finished = 0;
  events.finished = [&](size_t, const Generated&) { ++finished; };
  std::vector<Generated> stopped = generate(s, kPrompts, o, events);
  EXPECT_EQ(stopped[1].finish, Finish::stop);
  EXPECT_EQ(stopped[1].ids.size(), 3u);
  EXPECT_EQ(stopped[0].ids.size(), 5u);
  EXPECT_TRUE(stopped[2].begun);
  EXPECT_FALSE(stopped[3].begun);
  EXPECT_EQ(finished, 3);
}

std::string refusal(const Prompts& prompts, const GenerateOptions& o) {
  LoadedModel s = session_of(small_llama(64));
  return message_of<UserError>([&] { generate(s, prompts, o, {}, "file.json"); });
}

TEST(Generate, RefusesWhatCannotRun) {
  GenerateOptions o;
  o.max_new_tokens = 4;
  EXPECT_NE(refusal({{1}, {}}, o).find("file.json, prompt 2"), std::string::npos);
  EXPECT_NE(refusal({{61}}, o).find("vocab_size = 61"), std::string::npos);
  EXPECT_NE(refusal({{-1}}, o).find("token -1"), std::string::npos);
  o.max_new_tokens = 62;
  EXPECT_NE(refusal({{1, 2, 3}}, o).find("max_position_embeddings = 64"), std::string::npos);
  EXPECT_NE(refusal({{1, 2, 3}}, o).find("--max-new-tokens 61"), std::string::npos);
  o.max_length = 3;
  EXPECT_NE(refusal({{1, 2, 3}}, o).find("max_length = 3"), std::string::npos);
  EXPECT_NE(refusal({std::vector<int32_t>(64, 1)}, {}).find("shorten the prompt"), std::string::npos);
  LoadedModel s = session_of(small_llama(64));
  o = {};
  o.max_new_tokens = 61;
  EXPECT_EQ(generate(s, {{1, 2, 3}}, o)[0].ids.size(), 61u);  // the last position is in reach
}

TEST(Generate, NanOfTheModelIsAnError) {
  LoadedModel s = session_of(small_llama(64));
  s.store->master(*s.model->params().find("model.norm.weight")).as<double>()[0] = NAN;
  GenerateOptions o;
  o.max_new_tokens = 2;
  EXPECT_NE(message_of<Error>([&] { generate(s, {{1}}, o); }).find("the model gives nan"), std::string::npos);
}

// Token 60 has an embedding of NaN: prompt 3 begins with it.
TEST(Generate, OnePromptFailsAloneAndTheOthersKeepTheirBits) {
  LoadedModel s = session_of(small_llama(64));
  GenerateOptions o;
  o.max_new_tokens = 10;
  const std::vector<Generated> right = generate(s, kPrompts, o);
  const TensorView embedding = s.store->master(*s.model->params().find("model.embed_tokens.weight"));
  for (int64_t c = 0; c < embedding.cols(); ++c) embedding.row<double>(60)[c] = NAN;
  std::string reported;
  std::vector<size_t> finished;
  GenerateEvents events;
  events.failed = [&](size_t prompt, const std::string& error) { reported += fmt::format("{}: {}\n", prompt, error); };
  events.finished = [&](size_t prompt, const Generated&) { finished.push_back(prompt); };
  auto others_are_right = [&](const std::vector<Generated>& got, const std::vector<Generated>& wanted) {
    for (size_t i = 0; i < kPrompts.size(); ++i) {
      EXPECT_EQ(got[i].finish == Finish::error, i == 3) << i;
      if (i == 3) continue;
      EXPECT_EQ(got[i].ids, wanted[i].ids) << i;
      EXPECT_EQ(got[i].logprob, wanted[i].logprob) << i;
    }
  };
  for (const int64_t batch : {1, 2, 5}) {
    o.batch = batch, reported.clear(), finished.clear();
    const std::vector<Generated> got = generate(s, kPrompts, o, events);
    others_are_right(got, right);
    EXPECT_EQ(reported, "3: generate: the model gives nan for token 0 at position 3 of prompt 4\n");
    EXPECT_EQ(finished.size(), kPrompts.size());
  }
  o.prompt_names = {"a", "b", "c", "questions.txt:7", "d"};
  EXPECT_NE(message_of<Error>([&] { generate(s, kPrompts, o); }).find("of questions.txt:7"), std::string::npos);

  LoadedModel whole = session_of(small_llama(64));
  reported.clear();
  BeamOptions beams;
  beams.beams = 3;
  others_are_right(generate_beams(s, kPrompts, o, beams, 1, events), generate_beams(whole, kPrompts, o, beams, 1));
  EXPECT_NE(reported.find("3: "), std::string::npos);
  EXPECT_NE(reported.find("of questions.txt:7"), std::string::npos);
}

// A pass that throws is of nobody until each has had one of its own.
TEST(Generate, APassThatThrowsEndsTheOneThatItIsOf) {
  class Throws : public Observer {
   public:
    void before(const CallInfo& call) override {
      if (call.op != std::string_view("embedding")) return;
      for (const NamedView& t : call.tensors)
        for (int64_t i = 0; t.view.dtype == DType::i32 && i < t.view.count(); ++i)
          require(t.view.as<int32_t>()[i] != 60, "embedding: no token 60 today");
    }
  };
  LoadedModel s = session_of(small_llama(64));
  Throws throws;
  GenerateOptions o;
  o.max_new_tokens = 10;
  const std::vector<Generated> right = generate(s, kPrompts, o);
  o.observer = &throws, o.step_tokens = 9;  // the others are being read, and written, when prompt 3 comes
  std::string reported;
  GenerateEvents events;
  events.failed = [&](size_t prompt, const std::string& error) { reported += fmt::format("{}: {}\n", prompt, error); };
  const std::vector<Generated> got = generate(s, kPrompts, o, events);
  EXPECT_EQ(reported, "3: embedding: no token 60 today\n");
  for (size_t i = 0; i < kPrompts.size(); ++i)
    if (i != 3) {
      EXPECT_EQ(got[i].ids, right[i].ids) << i;
    }
}

TEST(SlotCache, GrowsAndKeepsWhatIsThere) {
  SlotCache cache({0, 1}, {3, 3}, DType::f32, 2);
  std::vector<float> rows(12);
  auto write = [&](float from) {
    for (float& x : rows) x = from++;
    TensorView v = view_of(rows.data(), DType::f32, {4, 3});
    cache.append(0, v, v);
    return cache.append(1, v, v).second;
  };
  cache.begin_step(3, 100);
  cache.extend(0, 0, 3);
  cache.extend(1, 3, 1);
  write(100);
  cache.begin_step(5, 9);
  EXPECT_EQ(cache.bytes(), 2 * 2 * 2 * 6 * 3 * 4);  // doubled
  cache.extend(1, 0, 2);
  cache.extend(0, 2, 2);
  TensorView v = write(200);
  EXPECT_EQ(cache.segments()[0], (Segment{0, 2, 6, 3}));
  EXPECT_EQ(cache.segments()[1], (Segment{2, 2, 0, 5}));
  EXPECT_EQ(v.row<float>(2)[0], 106);
  EXPECT_EQ(v.row<float>(3)[0], 206);
  EXPECT_EQ(v.row<float>(6)[0], 109);
  EXPECT_EQ(v.row<float>(8)[2], 205);
  cache.clear(0);
  EXPECT_EQ(cache.length(0), 0);
  EXPECT_THROW(cache.extend(1, 0, 4), Error);
}

TEST(SlotCache, ReportsHowMuchMemoryIsMissing) {
  SlotCache cache({0, 99}, {1 << 20, 1 << 20}, DType::f32, 50000);
  EXPECT_NE(message_of<UserError>([&] { cache.begin_step(1 << 20, 1 << 20); }).find("--batch"), std::string::npos);
}

TEST(GenerationConfig, ReadsDefaultsAndEndIds) {
  TemporaryFolder folder;
  ModelFacts facts;
  facts.vocabulary = 100;
  facts.eos = {7};
  GenerationDefaults d = read_generation_config(folder.path(), facts);
  EXPECT_EQ(d.end_ids, std::vector<int32_t>{7});
  EXPECT_EQ(d.processing.top_k, 50);
  EXPECT_FALSE(d.max_length);
  spill(
      folder / "generation_config.json",
      R"({"eos_token_id": [3, 99], "do_sample": true, "num_beams": 4, "temperature": 0.6, "top_p": 0.9, "top_k": null, "max_length": 4096,
            "repetition_penalty": 1.1, "typical_p": 1.0, "min_p": 0.05, "stop_strings": ["\n"], "bad_words_ids": null, "eta_cutoff": 0.1})");
  d = read_generation_config(folder.path(), facts);
  EXPECT_EQ(d.end_ids, (std::vector<int32_t>{3, 99}));
  EXPECT_EQ(d.processing.temperature, 0.6);
  EXPECT_EQ(d.processing.top_p, 0.9);
  EXPECT_EQ(d.processing.repetition_penalty, 1.1);
  EXPECT_EQ(*d.max_length, 4096);
  EXPECT_EQ(d.processing.min_p, 0.05);
  EXPECT_EQ(d.processing.typical_p, 1);
  EXPECT_EQ(d.stop_texts, std::vector<std::string>{"\n"});
  EXPECT_TRUE(d.sample && d.end_ids.size() == 2);
  EXPECT_EQ(d.not_offered, (std::vector<std::string>{"eta_cutoff"}));
  for (const char* bad : {R"({"temperature": "hot"})", R"({"top_p": 2})", R"({"eos_token_id": 100})",
                          R"({"eos_token_id": ["x"]})", R"({"top_k": 1.5})", R"({"min_p": 2})", R"({"typical_p": "x"})",
                          R"({"stop_strings": [""]})", R"({"do_sample": 1})", "[]"}) {
    spill(folder / "generation_config.json", bad);
    EXPECT_NE(message_of<UserError>([&] { read_generation_config(folder.path(), facts); }).find("generation_config.json"),
              std::string::npos)
        << bad;
  }
}

// Greedy tokens of recorded models, as Transformers chose them.
TEST(Generate, RecordedModels) {
  const char* shared = std::getenv("RAVINE_SHARED");
  if (!shared || !*shared) GTEST_SKIP() << "RAVINE_SHARED is not set: the recorded models are elsewhere";
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(shared) / "golden" / "models")) {
    std::string folder = entry.path().string();
    if (!entry.path().filename().string().starts_with("llama")) continue;
    ++models;
    Json gen = read_json(folder + "/gen.json");
    Prompts prompts;
    for (const Json& p : gen.at("prompts")) prompts.push_back(p.at("prompt").get<std::vector<int32_t>>());
    for (const Backend backend : {Backend::cpu, Backend::ref}) {
      LoadedModel s = load_model(folder, DType::f32, backend);
      GenerateOptions o;
      o.max_new_tokens = gen.at("max_new_tokens");
      o.end_ids = read_generation_config(folder, s.model->facts()).end_ids;
      std::vector<Generated> got = generate(s, prompts, o);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i].ids, gen.at("prompts").at(i).at("greedy").get<std::vector<int32_t>>())
            << folder << ", prompt " << i << ", " << name(backend);
    }
  }
  EXPECT_GE(models, 4);
}

}  // namespace test_infer_generate
}  // namespace ravine

// The inputs of generation and trace: defaults of generation_config.json, prompts, limits, inputs of trace. Also the
// cache above its task size, and choices above a row of eight.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "files/safetensors.h"
#include "infer/beam_search.h"
#include "infer/beams.h"
#include "infer/generation_config.h"
#include "infer/generator.h"
#include "infer/kv_cache.h"
#include "infer/loaded_model.h"
#include "infer/output.h"
#include "infer/prompts.h"
#include "infer/sampler.h"
#include "infer/speed.h"
#include "infer/trace.h"
#include "parallel/flat_store.h"
#include "parallel/initialise.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_infer_rules {

using Ids = std::vector<int32_t>;
using Prompts = std::vector<Ids>;

ModelFacts facts_of(int64_t vocabulary, std::vector<int64_t> eos, int64_t positions = 0) {
  ModelFacts f;
  f.vocabulary = vocabulary, f.eos = std::move(eos), f.max_positions = positions;
  return f;
}
GenerationDefaults defaults(const Json& j, const ModelFacts& f = facts_of(100, {7, 9, 100, -1})) {
  return parse_generation_config(j, "g.json", f);
}

TEST(GenerationDefaults, AreThoseOfTransformers) {
  const GenerationDefaults d = defaults(Json::object());
  EXPECT_TRUE(d.processing.repetition_penalty == 1 && d.processing.no_repeat_ngram == 0 && d.processing.temperature == 1 &&
              d.processing.top_k == 50 && d.processing.top_p == 1);
  EXPECT_TRUE(d.length_penalty == 1 && d.early_stopping == EarlyStop::no && !d.max_new_tokens && !d.max_length &&
              d.not_offered.empty());
  EXPECT_EQ(d.end_ids, (Ids{7, 9})) << "the model's, as far as it has them";
  EXPECT_EQ(defaults({{"eos_token_id", nullptr}}).end_ids, (Ids{7, 9}));
  EXPECT_EQ(defaults({{"eos_token_id", {99, 0}}}).end_ids, (Ids{99, 0})) << "in their order, and instead of the model's";
  EXPECT_EQ(defaults({{"eos_token_id", 5}}).end_ids, Ids{5});
  EXPECT_EQ(defaults({{"eos_token_id", -1}}).end_ids, Ids{}) << "-1 is none, as in config.json";
  EXPECT_EQ(defaults({{"eos_token_id", {5, -1}}}).end_ids, Ids{5});
}

TEST(GenerationDefaults, EveryFieldIsRead) {
  const GenerationDefaults d = defaults({{"repetition_penalty", 1.5},
                                         {"no_repeat_ngram_size", 3},
                                         {"temperature", 0.25},
                                         {"top_k", 0},
                                         {"top_p", 0.5},
                                         {"length_penalty", -2},
                                         {"early_stopping", "never"},
                                         {"max_new_tokens", 12},
                                         {"max_length", 34}});
  EXPECT_TRUE(d.processing.repetition_penalty == 1.5 && d.processing.no_repeat_ngram == 3 && d.processing.temperature == 0.25 &&
              d.processing.top_k == 0 && d.processing.top_p == 0.5);
  EXPECT_TRUE(d.length_penalty == -2 && d.early_stopping == EarlyStop::never && d.max_new_tokens == 12 && d.max_length == 34);
  EXPECT_EQ(defaults({{"temperature", 0}}).processing.temperature, 1) << "of models that are meant to be greedy";
  EXPECT_EQ(defaults({{"early_stopping", true}}).early_stopping, EarlyStop::yes);
  EXPECT_EQ(defaults({{"early_stopping", false}}).early_stopping, EarlyStop::no);
}

TEST(GenerationDefaults, WhatIsNotOfferedIsNamedWhereItActs) {
  const std::vector<std::pair<const char*, std::pair<Json, Json>>> fields = {
      {"min_length", {0, 1}},
      {"min_new_tokens", {0, 1}},
      {"top_h", {nullptr, 0.5}},
      {"epsilon_cutoff", {0, 0.1}},
      {"eta_cutoff", {0.0, 0.1}},
      {"encoder_repetition_penalty", {1.0, 1.1}},
      {"encoder_no_repeat_ngram_size", {0, 2}},
      {"bad_words_ids", {Json::array(), Json::array({Json::array({1})})}},
      {"force_words_ids", {nullptr, Json::array({1})}},
      {"suppress_tokens", {nullptr, Json::array({1})}},
      {"begin_suppress_tokens", {Json::array(), Json::array({1})}},
      {"forced_bos_token_id", {nullptr, 1}},
      {"forced_eos_token_id", {nullptr, 1}},
      {"sequence_bias", {nullptr, Json::array({1})}},
      {"guidance_scale", {1, 1.5}},
      {"exponential_decay_length_penalty", {nullptr, Json::array({1, 2})}},
      {"watermarking_config", {nullptr, Json{{"a", 1}}}},
      {"renormalize_logits", {false, true}},
      {"max_time", {nullptr, 3}},
      {"penalty_alpha", {0, 0.5}}};
  for (const auto& [key, values] : fields) {
    EXPECT_TRUE(defaults({{key, values.first}}).not_offered.empty()) << key;
    EXPECT_EQ(defaults({{key, values.second}}).not_offered, std::vector<std::string>{key});
  }
}

TEST(GenerationDefaults, LimitsAreHeld) {
  for (const Json& bad :
       {Json{{"repetition_penalty", 0}}, Json{{"no_repeat_ngram_size", -1}}, Json{{"temperature", -0.1}}, Json{{"top_k", -1}},
        Json{{"top_p", -0.1}}, Json{{"top_p", 1.1}}, Json{{"length_penalty", 101}}, Json{{"early_stopping", "always"}},
        Json{{"early_stopping", 1}}, Json{{"max_new_tokens", 0}}, Json{{"max_length", 0}}, Json{{"max_length", 1e16}},
        Json{{"eos_token_id", -2}}, Json{{"eos_token_id", {1, 100}}}})
    EXPECT_NE(message_of<UserError>([&] {
                defaults(bad);
              }).find(fmt::format("field '{}' is {} (g.json)", bad.begin().key(), bad.begin()->dump())),
              std::string::npos)
        << bad;
  for (const Json& good : {Json{{"top_p", 0}}, Json{{"top_p", 1}}, Json{{"max_length", 1}}, Json{{"max_new_tokens", 1}},
                           Json{{"length_penalty", -100}}, Json{{"eos_token_id", 99}}})
    EXPECT_NO_THROW(defaults(good)) << good;
}

std::vector<std::string> texts_in(const std::string& path, const std::string& text_key) {
  std::vector<std::string> texts;
  for (const PromptText& p : read_prompt_texts(path, text_key)) texts.push_back(p.text);
  return texts;
}

TEST(Prompts, TheFieldOfItsOwnNameComesFirst) {
  TemporaryFolder f;
  spill(f / "p.jsonl", "{\"text\": \"t\", \"prompt\": \"p\"}\r\n \t\n{\"text\": \"t\"}\n{\"prompt\": 3, \"text\": \"u\"}\n");
  EXPECT_EQ(texts_in(f / "p.jsonl", "text"), (std::vector<std::string>{"p", "t", "u"}));
  spill(f / "p.txt", "a\n\n");
  EXPECT_EQ(texts_in(f / "p.txt", "text"), (std::vector<std::string>{"a", ""})) << "the newline at the end begins no line";
}

TEST(LengthLimit, IsTheLowerOfBoth) {
  GenerateOptions o;
  o.max_new_tokens = 5;
  EXPECT_EQ(length_limit({1, 2, 3}, o), 8);
  o.max_length = 7;
  EXPECT_EQ(length_limit({1, 2, 3}, o), 7);
  o.max_length = 9;
  EXPECT_EQ(length_limit({1, 2, 3}, o), 8);
}

TEST(CheckPrompts, NamesThePromptAndTheTokensThatAreLeft) {
  GenerateOptions o;
  o.max_new_tokens = 5;
  o.numbers = {4, 6};
  const ModelFacts f = facts_of(10, {}, 8);
  auto refusal = [&](const Prompts& p) { return message_of<UserError>([&] { check_prompts(p, f, o, "file"); }); };
  EXPECT_NO_THROW(check_prompts({{1, 2, 3}, {9}}, f, o, "file"));
  EXPECT_NE(
      refusal({{1}, {1, 2, 3, 4}})
          .find(
              "4 tokens and 5 new ones (file, prompt 7): the model has max_position_embeddings = 8; use --max-new-tokens 4 or less"),
      std::string::npos)
      << refusal({{1}, {1, 2, 3, 4}});
  EXPECT_NE(refusal({{1, 10}}).find("token 10 (file, prompt 5)"), std::string::npos);
  o.max_length = 3;
  EXPECT_NE(refusal({{1, 2, 3}}).find("a prompt of 3 tokens (file, prompt 5): max_length = 3 leaves no room"),
            std::string::npos)
      << refusal({{1, 2, 3}});
}

LoadedModel session_in(DType type) {
  const Json config = {
      {"model_type", "llama"},    {"hidden_size", 32},           {"num_hidden_layers", 2}, {"num_attention_heads", 4},
      {"num_key_value_heads", 2}, {"intermediate_size", 48},     {"vocab_size", 61},       {"max_position_embeddings", 64},
      {"initializer_range", 0.4}, {"tie_word_embeddings", false}};
  LoadedModel s;
  s.model = make_model(config, "test");
  s.kernels = ref_kernels();
  s.types = Types::of(type);
  auto store = std::make_unique<FlatStore>(s.model->params(), s.types, DeviceKind::cpu);
  initialise(s.model->params(), *store, 3);
  s.trainable = store.get();
  s.store = std::move(store);
  s.stored_names.clear();
  for (const FileTensor& t : s.model->files().tensors) s.stored_names.push_back(t.name);
  s.parts = split_model(*s.model, 1, {});
  return s;
}

TEST(Generate, PenaltiesActOnTheLikeliestTokenInEveryType) {
  for (DType type : {DType::f64, DType::f32}) {
    LoadedModel s = session_in(type);
    for (bool ngram : {true, false}) {
      GenerateOptions o;
      o.max_new_tokens = 30;
      (ngram ? o.processing.no_repeat_ngram : o.max_length) = ngram ? 1 : 0;
      if (!ngram) o.processing.repetition_penalty = 1e6;
      const Ids prompt{5, 6, 7}, ids = generate(s, {prompt}, o)[0].ids;
      std::set<int32_t> seen(prompt.begin(), prompt.end());
      for (int32_t id : ids) EXPECT_TRUE(seen.insert(id).second) << name(type) << " ngram " << ngram << ": " << id << " again";
    }
    GenerateOptions plain;
    plain.max_new_tokens = 30;
    const Ids ids = generate(s, {{5, 6, 7}}, plain)[0].ids;
    EXPECT_LT(std::set<int32_t>(ids.begin(), ids.end()).size(), ids.size())
        << "without them some token comes again, so the above says something";
  }
}

TEST(Generate, AnEndThatIsAlsoTheLastTokenIsAnEnd) {
  LoadedModel s = session_in(DType::f32);
  GenerateOptions o;
  o.max_new_tokens = 3;
  const Ids ids = generate(s, {{5}}, o)[0].ids;
  o.end_ids = {60, ids[2]};
  if (ids[0] != ids[2] && ids[1] != ids[2]) {
    EXPECT_EQ(generate(s, {{5}}, o)[0].finish, Finish::eos);
  }
  GenerateEvents events;
  events.token = [](size_t, int32_t) { return false; };
  o.end_ids = {ids[0]};
  EXPECT_EQ(generate(s, {{5}}, o, events)[0].finish, Finish::eos) << "that it is stopped as well says less";
  EXPECT_TRUE(name(Finish::eos) == "eos" && name(Finish::length) == "length" && name(Finish::stop) == "stop");
}

TEST(Generate, DrawsGoByTheNumberOfThePrompt) {
  LoadedModel s = session_in(DType::f32);
  GenerateOptions o;
  o.max_new_tokens = 8, o.sample = true, o.seed = 3;
  const Prompts prompts{{5}, {5}, {5}};
  const auto all = generate(s, prompts, o);
  EXPECT_NE(all[0].ids, all[1].ids);
  o.numbers = {2};
  EXPECT_EQ(generate(s, {{5}}, o)[0].ids, all[2].ids) << "as a data rank that has the third alone";
}

TEST(IndexOfLargest, AnyLengthAndTheFirstOfEquals) {
  for (size_t n = 1; n < 35; ++n)
    for (size_t at = 0; at < n; ++at) {
      std::vector<float> v(n, -3);
      v[at] = 2;
      EXPECT_EQ(index_of_largest(v), static_cast<int32_t>(at)) << n;
      for (size_t again = at; again < n; ++again) v[again] = 2;
      EXPECT_EQ(index_of_largest(v), static_cast<int32_t>(at)) << n;
    }
}

// Rows beyond the 64 of one task, in pieces of two slots.
TEST(SlotCache, TakesManyRowsAndCopiesThem) {
  constexpr int64_t kWide = 3;
  SlotCache cache({5, 2}, {kWide, kWide}, DType::f32, 3);
  cache.begin_step(150, 400);
  cache.extend(1, 0, 150);
  cache.extend(2, 150, 70);
  std::vector<float> k(220 * kWide), v(k.size());
  std::iota(k.begin(), k.end(), 0.0f);
  for (size_t i = 0; i < v.size(); ++i) v[i] = -k[i];
  auto view = [&](std::vector<float>& of, int64_t rows) { return view_of(of.data(), DType::f32, {rows, kWide}); };
  std::pair<TensorView, TensorView> kept;
  for (int layer : {2, 5}) kept = cache.append(layer, view(k, 220), view(v, 220));
  EXPECT_THROW(cache.append(3, view(k, 220), view(v, 220)), Error) << "a layer of another stage";
  EXPECT_THROW(cache.append(6, view(k, 220), view(v, 220)), Error);
  const int64_t capacity = cache.bytes() / (2 * 2 * 3 * kWide * 4);
  EXPECT_EQ(capacity, 150);
  for (int64_t r = 0; r < 220; ++r)
    for (int64_t c = 0; c < kWide; ++c) {
      const int64_t at = r < 150 ? capacity + r : 2 * capacity + r - 150;
      ASSERT_EQ(kept.first.row<float>(at)[c], static_cast<float>(r * kWide + c)) << r;
      ASSERT_EQ(kept.second.row<float>(at)[c], -static_cast<float>(r * kWide + c)) << r;
    }
  cache.copy(2, 0);
  EXPECT_EQ(cache.length(0), 70);
  cache.begin_step(160, 400);  // grows, and keeps what each slot has
  EXPECT_EQ(cache.bytes() / (2 * 2 * 3 * kWide * 4), 300);
  cache.extend(0, 0, 1);
  std::vector<float> one{-1, -2, -3};
  cache.append(5, view(one, 1), view(one, 1));
  const auto after = cache.append(2, view(one, 1), view(one, 1));
  EXPECT_EQ(cache.segments()[0], (Segment{0, 1, 0, 71}));
  for (int64_t r = 0; r < 70; ++r) {
    ASSERT_EQ(after.first.row<float>(r)[1], static_cast<float>((150 + r) * kWide + 1)) << "of slot 2";
    ASSERT_EQ(after.second.row<float>(600 + r)[1], -static_cast<float>((150 + r) * kWide + 1));
  }
  EXPECT_EQ(after.first.row<float>(70)[2], -3);
  EXPECT_EQ(after.first.row<float>(300 + 149)[0], 149 * 3);
  cache.begin_step(301, 400);
  EXPECT_EQ(cache.bytes() / (2 * 2 * 3 * kWide * 4), 400) << "never more than is asked for at most";
}

TEST(OutputRules, JsonOfBeams) {
  std::FILE* file = std::tmpfile();
  Generated g;
  g.ids = {4, 5}, g.logprob = -2, g.finish = Finish::stop;
  g.beams = {{{4, 5}, -1, -2}, {{6}, -1.5, -1.5}};
  const Prompts prompts{{1}};
  {
    GenerateOutput out(prompts, nullptr, true, file, true);
    out.finished(0, g);
  }
  std::rewind(file);
  char line[400] = {};
  EXPECT_NE(std::fgets(line, sizeof line, file), nullptr);
  std::fclose(file);
  EXPECT_EQ(Json::parse(line), (Json{{"prompt_ids", {1}},
                                     {"ids", {4, 5}},
                                     {"text", ""},
                                     {"finish", "stop"},
                                     {"logprob", -2.0},
                                     {"beams", {{{"ids", {4, 5}}, {"score", -1.0}}, {{"ids", {6}}, {"score", -1.5}}}}}));
}

template <class T>
TensorBytes tensor(const char* name, DType type, const Shape& shape, const std::vector<T>& v) {
  return {name, type, shape, std::as_bytes(std::span(v))};
}

TEST(TraceInput, KnowsPaddingPositionsAndLabels) {
  TemporaryFolder f;
  const std::vector<int16_t> ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2};
  const std::vector<uint8_t> mask{0, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0};
  const std::vector<int64_t> labels{9, -100, 3, 4, 5, 6, -100, 8, 1, 2, 3, 4};
  save_safetensors(f / "a",
                   {tensor("input_ids", DType::i16, {3, 4}, ids), tensor("attention_mask", DType::boolean, {3, 4}, mask),
                    tensor("labels", DType::i64, {3, 4}, labels)});
  const TraceInput in = read_trace_input(f / "a", facts_of(10, {}, 4));
  EXPECT_TRUE(in.rows == 3 && in.columns == 4);
  EXPECT_EQ(in.ids, Ids(ids.begin(), ids.end()));
  EXPECT_EQ(in.positions, (Ids{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3})) << "of each row anew";
  EXPECT_EQ(in.segments, (std::vector<Segment>{{1, 2, 1, 2}, {4, 4, 4, 4}})) << "a row of padding alone has none";
  EXPECT_EQ(in.labels, (Ids{-100, 3, 4, -100, 6, -100, 8, -100, 2, 3, 4, -100})) << "of the token that comes next";
  const std::vector<int32_t> positions{3, 2, 1, 0, 0, 0, 3, 3, 1, 1, 2, 2};
  const std::vector<int8_t> small(12, 9);
  save_safetensors(f / "b",
                   {tensor("input_ids", DType::i8, {3, 4}, small), tensor("position_ids", DType::i32, {3, 4}, positions)});
  const TraceInput other = read_trace_input(f / "b", facts_of(10, {}, 4));
  EXPECT_EQ(other.positions, positions);
  EXPECT_TRUE(other.segments.front() == (Segment{0, 1, 0, 1}) && other.segments.back() == (Segment{11, 1, 11, 1}) &&
              other.note.empty())
      << "no position but one is one more than that before it";
  const std::vector<int32_t> packed{0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 0, 1};
  save_safetensors(f / "d",
                   {tensor("input_ids", DType::i8, {3, 4}, small), tensor("position_ids", DType::i32, {3, 4}, packed)});
  EXPECT_EQ(read_trace_input(f / "d", facts_of(10, {}, 4)).segments,
            (std::vector<Segment>{{0, 2, 0, 2}, {2, 2, 2, 2}, {4, 4, 4, 4}, {8, 2, 8, 2}, {10, 2, 10, 2}}));
  const std::vector<int8_t> ones(12, 1);
  save_safetensors(f / "e", {tensor("input_ids", DType::i8, {3, 4}, small), tensor("position_ids", DType::i32, {3, 4}, packed),
                             tensor("attention_mask", DType::i8, {3, 4}, ones)});
  const TraceInput joined = read_trace_input(f / "e", facts_of(10, {}, 4));
  EXPECT_EQ(joined.segments, (std::vector<Segment>{{0, 4, 0, 4}, {4, 4, 4, 4}, {8, 4, 8, 4}}));
  EXPECT_NE(joined.note.find("position_ids of row 0 begin again, and attention crosses there"), std::string::npos);
  EXPECT_TRUE(other.labels.empty());
  auto refusal = [&](std::vector<TensorBytes> more, int64_t vocabulary = 10, int64_t most = 4) {
    save_safetensors(f / "c", more);
    return message_of<UserError>([&] { read_trace_input(f / "c", facts_of(vocabulary, {}, most)); });
  };
  const TensorBytes good = tensor("input_ids", DType::i16, {3, 4}, ids);
  EXPECT_NE(refusal({good}, 9).find("token 9 in 'input_ids'"), std::string::npos);
  EXPECT_NE(refusal({good}, 10, 3).find("rows of 4 tokens"), std::string::npos);
  EXPECT_NE(refusal({good, tensor("position_ids", DType::i32, {3, 4}, positions)}, 10, 3).find("row 0, column 0"),
            std::string::npos);
  EXPECT_NE(refusal({good, tensor("labels", DType::i16, {4, 3}, ids)}).find("it must be [B,T], like input_ids"),
            std::string::npos);
  const std::vector<int64_t> large{0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0}, minus{0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_NE(refusal({good, tensor("labels", DType::i64, {3, 4}, large)}).find("label 10"), std::string::npos);
  EXPECT_NE(refusal({good, tensor("labels", DType::i64, {3, 4}, minus)}).find("label -1"), std::string::npos);
  const std::vector<uint8_t> holes{1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0}, none(12, 0), twos{1, 1, 1, 1, 1, 2, 1, 1, 0, 0, 0, 0};
  EXPECT_NE(refusal({good, tensor("attention_mask", DType::u8, {3, 4}, holes)}).find("row 0 of 'attention_mask' has holes"),
            std::string::npos);
  EXPECT_NE(refusal({good, tensor("attention_mask", DType::u8, {3, 4}, none)}).find("all 0"), std::string::npos);
  EXPECT_NE(refusal({good, tensor("attention_mask", DType::u8, {3, 4}, twos)}).find("row 1, column 1"), std::string::npos);
  const std::vector<float> real(12, 1);
  EXPECT_NE(refusal({tensor("input_ids", DType::f32, {3, 4}, real)}).find("it must hold integers"), std::string::npos);
}

// The loss is the mean over labels that count, and no label changes another row.
TEST(Trace, LossIsTheMeanOverTheLabels) {
  LoadedModel s = session_in(DType::f64);
  TraceInput in;
  in.rows = 2, in.columns = 3;
  in.ids = {4, 5, 6, 7, 8, 9}, in.positions = {0, 1, 2, 0, 1, 2}, in.segments = {{0, 3, 0, 3}, {3, 3, 3, 3}},
  in.labels = {11, -100, -100, -100, 13, -100};
  const Recipe recipe;
  std::map<std::string, NamedTensor> out;
  for (const NamedTensor& t : trace(s, in, false, recipe)) out[t.name] = t;
  const auto* logits = reinterpret_cast<const double*>(out.at("logits").data.data());
  auto loss_at = [&](int64_t token, int64_t label) {
    double sum = 0;
    for (int64_t v = 0; v < 61; ++v) sum += std::exp(logits[token * 61 + v]);
    return std::log(sum) - logits[token * 61 + label];
  };
  const double want = (loss_at(0, 11) + loss_at(4, 13)) / 2;
  EXPECT_NEAR(*reinterpret_cast<const double*>(out.at("loss").data.data()), want, 64 * epsilon(DType::f64) * std::abs(want));
  EXPECT_EQ(out.at("logits").shape, (Shape{2, 3, 61}));
  EXPECT_EQ(out.count("hidden.2"), 1u);
  EXPECT_EQ(out.count("hidden.3"), 0u);
}

// Counts one step of decoding by hand; random weights have the spread that the model requires.
TEST(InferenceSpeed, DecodeCountsItsProductsAndKeys) {
  TemporaryFolder dir;
  const Json config = {
      {"model_type", "llama"},    {"hidden_size", 128},       {"num_hidden_layers", 2}, {"num_attention_heads", 4},
      {"num_key_value_heads", 2}, {"intermediate_size", 192}, {"vocab_size", 700},      {"max_position_embeddings", 64},
      {"initializer_range", 0.4}, {"attention_bias", true}};
  spill(dir / "config.json", config.dump());
  LoadedModel s = load_random_model(dir / "config.json", DType::f32, Backend::cpu);
  SpeedOptions o;
  o.batch = 3, o.length = 10, o.steps = 4;
  int begun = 0;
  o.begin = [&] { ++begun; };
  const Speed decode = measure_decode(s, o);
  const double matrices = 2 * (256 * 128 + 128 * 128 + 3 * 192 * 128) + 700 * 128, keys = 10 + 1 + 2 + 4;
  EXPECT_DOUBLE_EQ(decode.flops, 2.0 * matrices * 3 + 4.0 * 2 * 128 * 3 * keys);
  EXPECT_EQ(begun, 1);
  measure_prefill(s, o);
  EXPECT_EQ(begun, 2) << "the last prompt only";
  for (const Param& p : s.model->params().params()) {
    const TensorView v = s.store->value(p);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < v.count(); ++i) sum += v.as<float>()[i], squares += double{v.as<float>()[i]} * v.as<float>()[i];
    const double n = static_cast<double>(v.count());
    if (p.init.kind == Init::ones) {
      EXPECT_EQ(sum, n) << p.name;
    }
    if (p.init.kind == Init::zeros) {
      EXPECT_EQ(squares, 0) << p.name;
    }
    if (p.init.kind != Init::normal) continue;
    EXPECT_NEAR(sum / n, 0, 5 * p.init.std / std::sqrt(n)) << p.name;
    EXPECT_NEAR(squares / n, p.init.std * p.init.std, 5 * std::sqrt(2 / n) * p.init.std * p.init.std) << p.name;
  }
}

// ModelLink's search ends when its worst result beats the best open beam, at any position among the candidates.
TEST(BeamSearchRules, TheBestInFlightIsTheBestOfAll) {
  GenerateOptions o;
  o.end_ids = {0};
  for (float in_flight : {-0.5f, -2.0f}) {
    BeamSearch search({1, 1.0, EarlyStop::no, BeamRules::modellink}, o, {3}, 20, 0, 5);
    search.follow({{0, 0, -1.0f, -1.0f}, {0, 2, in_flight, in_flight}});
    EXPECT_EQ(search.done(), in_flight < -1) << in_flight;
    EXPECT_EQ(search.best(1)[0].ids, in_flight < -1 ? Ids{0} : Ids{2});
  }
  // An end behind the first `beams` is no result.
  BeamSearch search({1, 1.0, EarlyStop::no, BeamRules::modellink}, o, {3}, 20, 0, 5);
  search.follow({{0, 2, -0.5f, -0.5f}, {0, 0, -1.0f, -1.0f}});
  EXPECT_FALSE(search.done());
  EXPECT_EQ(search.tokens(0), (Ids{3, 2}));
}

TEST(Beams, TokenCallbacksMayEndThemselves) {
  LoadedModel s = session_in(DType::f64);
  GenerateOptions o;
  o.max_new_tokens = 6;
  BeamOptions b;
  b.beams = 2;
  int token_events = 0;
  const auto got = generate_beams(s, {{5}, {6, 7}}, o, b, 1,
                                  {[&](size_t prompt, int32_t) { return prompt > 0 || ++token_events < 3; }, {}, {}});
  EXPECT_EQ(token_events, 3);
  EXPECT_EQ(got[0].ids.size(), 6u) << "the result is whole";
  EXPECT_TRUE(got[0].begun && got[1].begun);
  EXPECT_TRUE(generate(s, {{5}}, o)[0].begun);
}

// Latent attention keeps one row of a token: no values, and no memory for them.
TEST(SlotCache, RowsWithoutValues) {
  SlotCache cache({0, 1}, {5, 0}, DType::f32, 2);
  cache.begin_step(3, 100);
  cache.extend(1, 0, 2);
  std::vector<float> rows(10);
  std::iota(rows.begin(), rows.end(), 1.0f);
  const TensorView view = view_of(rows.data(), DType::f32, {2, 5});
  const auto [kept, none] = cache.append(1, view, {});
  EXPECT_TRUE(none.absent());
  EXPECT_EQ(kept.row<float>(4)[4], 10) << "slot 1 begins at row 3";
  EXPECT_EQ(cache.bytes(), 2 * 2 * 3 * 5 * 4);
  EXPECT_THROW(cache.append(1, view, view), Error);
  cache.copy(1, 0);
  cache.begin_step(4, 100);  // grows
  cache.extend(0, 0, 1);
  EXPECT_EQ(cache.append(1, view, {}).first.row<float>(1)[0], 6) << "of slot 0, copied from slot 1 before the cache grew";
}

TEST(SlotCache, ShareOfOneRank) {
  constexpr int64_t rows = 1 << 15;  // 16 MiB, which a millionth of no machine has
  SlotCache cache({0}, {64, 64}, DType::f32, 1, 1'000'000);
  const std::string message = message_of<UserError>([&] { cache.begin_step(rows, rows); });
  EXPECT_NE(message.find("this rank has"), std::string::npos) << message;
  SlotCache all({0}, {1 << 20, 1 << 20}, DType::f32, 50000);
  EXPECT_NE(message_of<UserError>([&] { all.begin_step(1 << 20, 1 << 20); }).find("this machine has"), std::string::npos);
}

TEST(Prompts, LinesCountBlankOnesToo) {
  TemporaryFolder f;
  spill(f / "p.jsonl", "\n{\"text\": \"a\"}\n\t\n{\"x\": 1}\n");
  EXPECT_NE(message_of<UserError>([&] { read_prompt_texts(f / "p.jsonl", "text"); }).find("p.jsonl:4"), std::string::npos);
  const std::vector<int16_t> minus{1, -1};
  save_safetensors(f / "a", {tensor("input_ids", DType::i16, {1, 2}, minus)});
  EXPECT_NE(message_of<UserError>([&] { read_trace_input(f / "a", facts_of(100000, {})); }).find("token -1 in 'input_ids'"),
            std::string::npos);
}

}  // namespace test_infer_rules
}  // namespace ravine

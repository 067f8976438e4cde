// Tests of the record in a checkpoint: the checksum of weights, equal models, equal paths, and the choices of auto.
#include "runs/run_record.h"

#include <cstring>
#include <filesystem>

#include "files/checksum.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_run_record {

namespace fs = std::filesystem;

TEST(WeightsChecksum, IsOfSizesAndBytesOfWeightFilesAlone) {
  TemporaryFolder f;
  EXPECT_EQ(weights_checksum(f / "none"), "");
  spill(f / "config.json", "{}");
  EXPECT_EQ(weights_checksum(f.path()), "") << "no weights";
  spill(f / "b.safetensors", "weights");
  Checksum sum;
  const int64_t size = 7;
  sum.update(std::as_bytes(std::span(&size, 1)));
  sum.update(std::as_bytes(std::span("weights", 7)));
  EXPECT_EQ(weights_checksum(f.path()), checksum_text(sum.value()));
  fs::rename(f / "b.safetensors", f / "pytorch_model.bin");
  EXPECT_EQ(weights_checksum(f.path()), checksum_text(sum.value())) << "names do not count";
  fs::rename(f / "pytorch_model.bin", f / "b.safetensors");
  spill(f / "a.safetensors", "more");
  const std::string both = weights_checksum(f.path());
  fs::rename(f / "a.safetensors", f / "c.safetensors");
  EXPECT_NE(weights_checksum(f.path()), both) << "the order of the files does";
}

// Returns the checksum of a file of `size` zeros with a one at byte `at` (below 0: none).
std::string with_byte(int64_t size, int64_t at) {
  TemporaryFolder f;
  std::string bytes(static_cast<size_t>(size), '\0');
  if (at >= 0) bytes[static_cast<size_t>(at)] = 1;
  spill(f / "model.safetensors", bytes);
  return weights_checksum(f.path());
}

TEST(WeightsChecksum, LooksAtBlocksOfLargeFilesSpreadOverAllOfThem) {
  constexpr int64_t kMiB = int64_t{1} << 20, kSize = 4 * kMiB + 5;
  const std::string small = with_byte(kMiB, -1), large = with_byte(kSize, -1);
  for (int64_t at : {int64_t{0}, kMiB / 2 + 1, kMiB - 1})
    EXPECT_NE(with_byte(kMiB, at), small) << at << ": all of what is not large";
  const int64_t step = (kSize - 4096) / 255;
  for (int64_t at : {int64_t{0}, int64_t{4095}, step, 100 * step + 4095, 254 * step, 255 * step, kSize - 4096, kSize - 1})
    EXPECT_NE(with_byte(kSize, at), large) << at;
  EXPECT_NE(with_byte(kSize - 1, -1), large) << "the size";
}

template <class F>
std::string refusal_text(F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

std::vector<OptionChange> changes(const std::string& was_path, const std::string& was_weights, const std::string& path,
                                  const std::string& weights) {
  Config was, now;
  was.model.path = was_path, now.model.path = path;
  return option_changes(
      run_record("step_000002", 2, Json{{"options", recorded_options(was, 1, 1)}, {"weights", was_weights}}, "", "here"),
      recorded_options(now, 1, 1), weights);
}

TEST(Resume, WeightsMayMoveButNotChange) {
  TemporaryFolder f;
  fs::create_directory(f / "a");
  fs::create_directory(f / "b");
  EXPECT_TRUE(changes(f / "a", "", f / "b/../a/", "").empty()) << "another spelling of one place";
  auto rule = [](const std::vector<OptionChange>& c) { return c.size() == 1 ? c[0].rule : OnResume::undecided; };
  EXPECT_EQ(rule(changes(f / "a", "123", f / "b", "123")), OnResume::may_change);
  EXPECT_EQ(rule(changes(f / "a", "123", f / "b", "124")), OnResume::fixed);
  EXPECT_EQ(rule(changes(f / "gone", "123", f / "b", "124")), OnResume::fixed)
      << "that it is gone says nothing where a checksum is known";
  EXPECT_EQ(rule(changes(f / "gone", "", f / "b", "124")), OnResume::may_change);
  EXPECT_EQ(rule(changes(f / "a", "", f / "b", "124")), OnResume::fixed);
  EXPECT_EQ(rule(changes(f / "a", "123", "", "123")), OnResume::fixed) << "no weights are another model";
  EXPECT_EQ(rule(changes("", "123", f / "a", "123")), OnResume::fixed);
}

// Counts that no run comes to, or that disagree, are refused by their field.
TEST(Resume, CountsAreThoseOfARun) {
  const Json good{{"step", 20},
                  {"optimizer_steps", 18},
                  {"tokens", 4096},
                  {"global_batch", 8},
                  {"spikes_in_a_row", 2},
                  {"own_ranks", 2},
                  {"window", {{"steps", 3}, {"valid", 10}, {"tokens", 12}}}};
  refuse_counts(good, 20, "test");
  constexpr int64_t kHuge = int64_t{1} << 62;
  for (const auto& [path, value] : std::vector<std::pair<const char*, int64_t>>{{"/step", 19},
                                                                                {"/optimizer_steps", 21},
                                                                                {"/optimizer_steps", -1},
                                                                                {"/tokens", kHuge},
                                                                                {"/global_batch", 0},
                                                                                {"/global_batch", kHuge},
                                                                                {"/spikes_in_a_row", kHuge},
                                                                                {"/own_ranks", 0},
                                                                                {"/window/steps", 0},
                                                                                {"/window/steps", 21},
                                                                                {"/window/valid", kHuge},
                                                                                {"/window/tokens", -1}}) {
    Json scalars = good;
    scalars[Json::json_pointer(path)] = value;
    try {
      refuse_counts(scalars, 20, "test");
      FAIL() << path << " " << value << " is taken";
    } catch (const UserError& e) {
      const std::string key = std::string(path).substr(std::string(path).rfind('/') + 1);
      EXPECT_NE(std::string(e.what()).find(fmt::format("'{}' is {}", key, value)), std::string::npos) << e.what();
    }
  }
  Json late = good;
  late["step"] = kHuge;
  EXPECT_THROW(refuse_counts(late, kHuge, "test"), UserError) << "no run has so many steps";
}

TEST(Resume, LongValuesAreCutInMessages) {
  const OptionChange c{
      .name = "data.split", .was = std::string(201, 'a'), .now = std::string(200, 'b'), .rule = OnResume::fixed};
  EXPECT_EQ(c.text(), "data.split: " + std::string(200, 'b') + ", was " + std::string(200, 'a') + "..");
}

TEST(Resume, TheTypeOfTheExportedModelIsKept) {
  Config was;
  was.checkpoint.model_dtype = DType::bf16;
  const RunRecord r = run_record("step_000002", 2, Json{{"options", recorded_options(was, 1, 1)}}, "", "here");
  auto kept = [](Config c, const RunRecord& record) {
    c.precision.compute = DType::f32;
    keep_choices(c, record, Backend::cpu, {});
    return c.checkpoint.model_dtype;
  };
  Config now;
  now.checkpoint.model_dtype = std::nullopt;
  EXPECT_EQ(kept(now, r), DType::bf16);
  now.checkpoint.model_dtype = DType::f16;
  EXPECT_EQ(kept(now, r), DType::f16) << "what is asked for by name counts";
  now.checkpoint.model_dtype = std::nullopt;
  was.checkpoint.model_dtype = std::nullopt;
  EXPECT_EQ(kept(now, run_record("s", 2, Json{{"options", recorded_options(was, 1, 1)}}, "", "here")), std::nullopt);
}

TEST(Resume, RecordsWhatRanksCameTo) {
  Config c;
  c.parallel.data = 0, c.parallel.sum_leaves = 0;
  const Json o = recorded_options(c, 3, 8);
  EXPECT_TRUE(o.at("parallel.data") == "3" && o.at("parallel.sum_leaves") == "8") << o;
  const RunRecord r = run_record(
      "s", 7, Json{{"weights", "abc"}, {"sum_leaves", 8}, {"model", {{"a", 1}}}, {"layout", {{"stage_layers", {2, 3}}}}}, "",
      "here");
  EXPECT_TRUE(r.weights == "abc" && r.sum_leaves == 8 && r.layers == 5 && r.model.at("a") == 1 && r.step == 7 &&
              r.checkpoint == "s");
}

TEST(Resume, AnotherModelIsOneOfOtherFieldsThatMatter) {
  const Json here{{"model_type", "llama"},
                  {"hidden_size", 8},
                  {"intermediate_size", 12},
                  {"num_hidden_layers", 2},
                  {"num_attention_heads", 2},
                  {"vocab_size", 23},
                  {"max_position_embeddings", 32},
                  {"rms_norm_eps", 1e-5},
                  {"architectures", {"LlamaForCausalLM"}},
                  {"transformers_version", "4.40"},
                  {"torch_dtype", "float32"},
                  {"use_cache", true},
                  {"bos_token_id", 1},
                  {"eos_token_id", 2},
                  {"pad_token_id", 0},
                  {"initializer_range", 0.02},
                  {"_name_or_path", "here"}};
  const auto model = make_model(here, "config.json");
  Config c;
  c.model.config = "config.json";
  auto refusal = [&](const Json& was, std::optional<int64_t> layers = {}) {
    return refusal_text([&] {
      refuse_other_model({.checkpoint = "step_000002",
                          .step = 2,
                          .options = {},
                          .model = was,
                          .sum_leaves = {},
                          .layers = layers,
                          .weights = ""},
                         *model, c);
    });
  };
  Json idle = here;
  for (const char* key : {"architectures", "transformers_version", "torch_dtype", "use_cache", "bos_token_id", "eos_token_id",
                          "pad_token_id", "initializer_range", "_name_or_path"})
    idle[key] = "another";
  idle["surplus"] = 1;
  EXPECT_EQ(refusal(here), "");
  EXPECT_EQ(refusal(nullptr), "");
  EXPECT_EQ(refusal(idle), "") << "of these none says anything about weights or arithmetic";
  Json eps = here;
  eps["rms_norm_eps"] = 1e-6;
  EXPECT_NE(refusal(eps).find("rms_norm_eps is 1e-05, was 1e-06 (config.json): step_000002 resumes with the model of its run"),
            std::string::npos)
      << refusal(eps);
  EXPECT_EQ(refusal(here, 2), "");
  EXPECT_NE(refusal(here, 3).find("the number of layers is 2, was 3"), std::string::npos);
}

// Changes of a config, and the field that a refusal names: "" where both are one model. Absent fields mean what
// Transformers takes.
TEST(Resume, AnotherModelIsOneThatComputesOtherNumbers) {
  const Json llama{
      {"model_type", "llama"},    {"hidden_size", 32},        {"intermediate_size", 64}, {"num_hidden_layers", 2},
      {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"vocab_size", 64},        {"max_position_embeddings", 64},
      {"rms_norm_eps", 1e-5}};
  const Json linear{{"rope_type", "linear"}, {"factor", 2.0}};
  const Json longrope{{"rope_type", "longrope"},
                      {"original_max_position_embeddings", 16},
                      {"short_factor", {1.0, 1.0, 1.0, 1.0}},
                      {"long_factor", {1.0, 2.0, 3.0, 4.0}}};
  // null takes a field away
  auto with = [](Json base, const Json& changes) { return base.merge_patch(changes), base; };
  auto part = [&](const Json& object, const char* key, const Json& value) { return with(object, Json{{key, value}}); };
  const Json scaled = with(llama, {{"rope_scaling", linear}}), far = with(llama, {{"rope_scaling", longrope}});
  const Json qwen = with(llama, {{"model_type", "qwen2"},
                                 {"use_sliding_window", true},
                                 {"sliding_window", 8},
                                 {"layer_types", {"full_attention", "sliding_attention"}}});
  const Json gpt2{{"model_type", "gpt2"}, {"n_embd", 32},      {"n_layer", 2},
                  {"n_head", 4},          {"n_positions", 64}, {"vocab_size", 64}};
  const Json gemma =
      with(llama, {{"model_type", "gemma2"}, {"head_dim", 8}, {"sliding_window", 8}, {"query_pre_attn_scalar", 8}});
  struct Case {
    Json base, change;
    std::string field;
  };
  const std::vector<Case> cases = {
      // Parts of objects and lists.
      {scaled, {{"rope_scaling", {{"factor", 4.0}}}}, "rope_scaling"},
      {scaled, {{"rope_scaling", {{"rope_type", "dynamic"}}}}, "rope_scaling"},
      {far, {{"rope_scaling", {{"long_factor", {1.0, 2.0, 3.0, 5.0}}}}}, "rope_scaling"},
      {far, {{"rope_scaling", {{"short_factor", {1.0, 1.0, 1.0, 1.5}}}}}, "rope_scaling"},
      {far, {{"rope_scaling", {{"original_max_position_embeddings", 32}}}}, "rope_scaling"},
      {far, {{"rope_scaling", {{"attention_factor", 1.0}}}}, "rope_scaling"},
      {qwen, {{"layer_types", {"sliding_attention", "full_attention"}}}, "layer_types"},
      {qwen, {{"sliding_window", 4}}, "sliding_window"},
      // Fields that only one of the two has.
      {llama, {{"rope_scaling", linear}}, "rope_scaling"},
      {llama, {{"rope_parameters", linear}}, "rope_parameters"},
      {llama, {{"rope_theta", 5e5}}, "rope_theta"},
      {llama, {{"rms_norm_eps", nullptr}}, "rms_norm_eps"},
      {llama, {{"num_key_value_heads", nullptr}}, "num_key_value_heads"},
      {llama, {{"max_position_embeddings", nullptr}}, "max_position_embeddings"},
      {llama, {{"head_dim", 16}}, "head_dim"},
      {llama, {{"attention_bias", true}}, "attention_bias"},
      {llama, {{"mlp_bias", true}}, "mlp_bias"},
      {llama, {{"tie_word_embeddings", true}}, "tie_word_embeddings"},
      {llama, {{"pad_token_id", 3}}, "pad_token_id"},  // its embedding gets no gradient
      {qwen, {{"layer_types", nullptr}, {"max_window_layers", 2}}, "layer_types"},
      {gemma, {{"attn_logit_softcapping", 20.0}}, "attn_logit_softcapping"},
      {gemma, {{"final_logit_softcapping", 20.0}}, "final_logit_softcapping"},
      {gemma, {{"query_pre_attn_scalar", 16}}, "query_pre_attn_scalar"},
      {gpt2, {{"n_inner", 64}}, "n_inner"},
      {gpt2, {{"activation_function", "gelu"}}, "activation_function"},
      {gpt2, {{"layer_norm_epsilon", 1e-6}}, "layer_norm_epsilon"},
      {gpt2, {{"scale_attn_by_inverse_layer_idx", true}}, "scale_attn_by_inverse_layer_idx"},
      // One model in other words.
      {llama,
       {{"rope_scaling", {{"rope_type", "default"}}}, {"rope_theta", 10000}, {"attention_bias", false}, {"head_dim", 8}},
       ""},
      {llama, {{"hidden_act", "silu"}, {"tie_word_embeddings", false}, {"initializer_range", 0.5}, {"bos_token_id", 1}}, ""},
      {scaled, {{"rope_scaling", nullptr}, {"rope_parameters", part(linear, "rope_theta", 10000.0)}}, ""},
      {far,
       {{"rope_scaling", {{"factor", 4.0}}}},
       "rope_scaling"},  // what it is anyway, but said: an object is compared as it stands
      {gpt2, {{"pad_token_id", 3}, {"n_inner", 128}, {"activation_function", "gelu_new"}}, ""},
  };
  for (const Case& c : cases)
    for (bool back : {false, true}) {
      Json was = c.base, now = with(c.base, c.change);
      if (back) std::swap(was, now);
      Config config;
      config.model.config = "config.json";
      const auto model = make_model(now, "config.json");
      const std::string message = refusal_text([&] {
        RunRecord record;
        record.checkpoint = "step_000002", record.step = 2, record.model = was;
        refuse_other_model(record, *model, config);
      });
      if (c.field.empty())
        EXPECT_EQ(message, "") << c.change;
      else
        EXPECT_NE(message.find(c.field + " is "), std::string::npos)
            << c.change << (back ? ", back" : "") << ": '" << message << "'";
    }
}

TEST(Resume, OnlyTheDefaultFolderIsTakenForAnothers) {
  Config was, now;
  was.model.config = "a.json", now.model.config = "b.json";
  const RunRecord r = run_record("step_000002", 2, Json{{"options", recorded_options(was, 1, 1)}}, "", "here");
  auto refusal = [&](const Config& c) { return refusal_text([&] { refuse_strangers_in_default(r, c); }); };
  EXPECT_NE(refusal(now).find("another run is in runs/default: model.config=a.json data.train=[], saved after step 2"),
            std::string::npos)
      << refusal(now);
  EXPECT_NE(refusal(now).find("this run is model.config=b.json data.train=[]"), std::string::npos) << refusal(now);
  EXPECT_EQ(refusal(was), "");
  Config named = now;
  named.sources["train.output"] = "command line";
  EXPECT_EQ(refusal(named), "") << "who names it means it";
  Config elsewhere = now;
  elsewhere.train.output = "runs/second";
  EXPECT_EQ(refusal(elsewhere), "");
  Config data = was;
  data.data.train.push_back({"c.txt"});
  EXPECT_NE(refusal(data).find("data.train=[c.txt]"), std::string::npos) << refusal(data);
  EXPECT_EQ(refusal_text([&] { refuse_strangers_in_default(run_record("s", 2, Json::object(), "", "here"), now); }), "")
      << "a checkpoint that knows no options";
}

}  // namespace test_run_record
}  // namespace ravine

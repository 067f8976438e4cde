// Tests of config fields that change a model beyond its shapes: the scale of attention in each layer, rules for
// parameters, fields that are read together.
#include <cmath>
#include <set>

#include "model/config_reader.h"
#include "model/decoder.h"
#include "tests/unit/families.h"

namespace ravine {
namespace test_model_rules {

Json tiny(const std::string& family, const Json& more = Json::object(), const std::vector<std::string>& without = {}) {
  Json c = tiny_families().at(family);
  c.update(more);
  for (const std::string& key : without) c.erase(key);
  return c;
}

// Returns the shape that each layer passes to the attention kernel.
std::vector<AttentionShape> attention_calls(const Json& config) {
  static std::vector<AttentionShape> seen;
  static const Kernel<AttentionForward> attention = ref_kernels().of<AttentionForward>();
  seen.clear();
  Kernels spying = ref_kernels();
  spying.of<AttentionForward>().run = [](const AttentionForward& a, void* workspace) {
    seen.push_back(a.at);
    attention.run(a, workspace);
  };
  TinyBatch tokens;
  tokens.add(tiny_tokens(1, 5));
  TinyRun(config, DType::f64, Recompute::none, 0, {}, spying).logits(tokens);
  return seen;
}

// Optimizers ask the declaration for the head, not its name (Muon leaves it to AdamW).
TEST(ModelRules, TheHeadIsDeclaredAsSuch) {
  for (const auto& [family, config] : tiny_families()) {
    std::set<std::string> heads;
    const auto model = make_model(config, "test");
    for (const Param& p : model->params().params())
      if (p.head) heads.insert(p.name);
    EXPECT_EQ(heads, std::set<std::string>{"lm_head.weight"}) << family;
  }
}

TEST(ModelRules, ScaleOfAttention) {
  const double root = 1 / std::sqrt(4.0);                                            // heads of 4
  const double yarn = std::pow(0.1 * 0.6 * std::log(4.0) + 1, 2) / std::sqrt(10.0);  // of DeepSeek's own code
  struct Case {
    Json config;
    std::vector<double> scales;
  };
  const std::vector<Case> cases = {
      {tiny("llama"), {root, root}},
      {tiny("qwen3"), {1 / std::sqrt(8.0), 1 / std::sqrt(8.0)}},
      {tiny("gpt2", {{"scale_attn_by_inverse_layer_idx", false}}), {root, root}},
      {tiny("gpt2", {{"scale_attn_by_inverse_layer_idx", true}}), {root, root / 2}},
      {tiny("gpt2", {{"scale_attn_by_inverse_layer_idx", false}, {"scale_attn_weights", false}}), {1, 1}},
      {tiny("gpt2", {{"scale_attn_by_inverse_layer_idx", true}, {"scale_attn_weights", false}}), {1, 0.5}},
      {tiny("gpt2", Json::object(), {"scale_attn_by_inverse_layer_idx"}), {root, root}},
      {tiny("deepseek_v3"), {yarn, yarn}},
      {tiny("deepseek_v3", Json::object(), {"rope_scaling"}), {1 / std::sqrt(10.0), 1 / std::sqrt(10.0)}},
  };
  for (const Case& k : cases) {
    const std::vector<AttentionShape> recorded = attention_calls(k.config);
    ASSERT_EQ(recorded.size(), k.scales.size());
    for (size_t i = 0; i < recorded.size(); ++i) {
      EXPECT_NEAR(recorded[i].scale, k.scales[i], 1e-15) << k.config.dump() << ", layer " << i;
      EXPECT_TRUE(recorded[i].causal);
    }
  }
}

TEST(ModelRules, SlopesAreOfFamiliesWithAlibi) {
  for (const auto& [name, config] : tiny_families()) {
    const bool alibi = name == "bloom" || name.ends_with("13b");
    for (const AttentionShape& a : attention_calls(config)) EXPECT_EQ(a.slopes.size(), alibi ? 3u : 0u) << name;
  }
}

TEST(ModelRules, PairsUnderAWindow) {
  for (int64_t length : {1, 2, 7, 20})
    for (int64_t window : {0, 1, 3, 7, 30}) {
      int64_t pairs = 0;
      for (int64_t q = 0; q < length; ++q)
        for (int64_t k = 0; k <= q; ++k) pairs += window == 0 || q - k < window;
      EXPECT_EQ(attended_pairs(window, length), pairs) << window << " " << length;
    }
}

// Tests the properties of a built model that converters, plans and reports read.
TEST(ModelRules, AModelDescribesItsParts) {
  auto spec = [](const std::string& family) { return *make_model(tiny_families().at(family), "test")->decoder(); };
  for (const auto& [name, config] : tiny_families()) {
    const auto model = make_model(config, "test");
    const DecoderSpec& s = *model->decoder();
    const Topology want = name == "pythia"   ? Topology::parallel
                          : name == "olmo2"  ? Topology::post_norm
                          : name == "gemma2" ? Topology::sandwich
                                             : Topology::pre_norm;
    EXPECT_EQ(s.topology, want) << name;
    EXPECT_EQ(s.head.unit_rows, name.starts_with("baichuan2")) << name;
    EXPECT_EQ(s.head.tied, model->params().find("lm_head.weight") == nullptr) << name;
    EXPECT_EQ(s.windowed(), name == "mistral" || name == "qwen2" || name == "phi3" || name == "gemma2") << name;
    EXPECT_EQ(s.attention.alibi, name == "bloom" || name.ends_with("13b")) << name;
    EXPECT_EQ(s.rope.has_value(), !s.attention.alibi && !s.position_table) << name;
    if (!s.is_sparse(0))
      EXPECT_EQ(gated(s.mlp.act), model->params().find("model.layers.0.mlp.gate_proj.weight") != nullptr) << name;
  }
  EXPECT_EQ(spec("qwen2").window(0), 0);
  EXPECT_EQ(spec("qwen2").window(1), 3);
  EXPECT_EQ(spec("baichuan2-7b").implied, (Json{{"z_loss_weight", 0}}));
  EXPECT_TRUE(spec("baichuan-7b").implied.empty());
  const RopeSettings rope = *spec("phi3").rope;
  EXPECT_TRUE(rope.turns_between(6, 7) && rope.turns_between(1, 9) && !rope.turns_between(5, 6) && !rope.turns_between(7, 8));
  EXPECT_FALSE(spec("llama").rope->turns_between(1, 100));
  const RopeSettings dynamic{.type = RopeSettings::dynamic, .factor = 2, .max_positions = 8};
  EXPECT_TRUE(dynamic.grows_between(1, 9) && dynamic.grows_between(9, 10) && !dynamic.grows_between(1, 8));
  EXPECT_FALSE(dynamic.turns_between(1, 100)) << "cached keys stay, as in Transformers";
}

// An MLP per layer; values as wide as keys.
TEST(ModelRules, LayersMayDiffer) {
  auto build = [](auto&& change) {
    ModelFacts f;
    f.layers = 2, f.vocabulary = 19;
    DecoderSpec s;
    s.attention.hidden = 12, s.attention.heads = s.attention.kv_heads = 3, s.attention.head_size = 4;
    s.mlp.width = 20;
    change(s);
    return make_decoder({}, f, s);
  };
  const auto model = build([](DecoderSpec& s) {
    s.mlps = {s.mlp, s.mlp};
    s.mlps[1].width = 8, s.mlps[1].act = Act::gelu;
  });
  EXPECT_TRUE(model->params().find("model.layers.0.mlp.up_proj.weight")->shape == (Shape{20, 12}));
  EXPECT_TRUE(model->params().find("model.layers.1.mlp.up_proj.weight")->shape == (Shape{8, 12}));
  EXPECT_EQ(model->params().find("model.layers.1.mlp.gate_proj.weight"), nullptr);
  EXPECT_THROW(build([](DecoderSpec& s) { s.mlps = {s.mlp}; }), Error) << "one for two layers";
  EXPECT_THROW(build([](DecoderSpec& s) { s.windows = {1, 2, 3}; }), Error);
  EXPECT_THROW(build([](DecoderSpec& s) { s.attention.value_size = 8; }), Error) << "without latents";
  EXPECT_NO_THROW(build([](DecoderSpec& s) { s.attention.value_size = 4; }));
}

// Shapes as published, to the unit.
TEST(ModelRules, ParametersOfPublishedShapes) {
  auto count = [](const Json& config) { return make_model(config, "test")->params().count(); };
  EXPECT_EQ(count({{"model_type", "phi3"},
                   {"hidden_size", 3072},
                   {"intermediate_size", 8192},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32},
                   {"num_key_value_heads", 32},
                   {"vocab_size", 32064},
                   {"max_position_embeddings", 4096},
                   {"original_max_position_embeddings", 4096},
                   {"rope_scaling", nullptr},
                   {"sliding_window", 2047},
                   {"pad_token_id", 32000},
                   {"embd_pdrop", 0.0},
                   {"resid_pdrop", 0.0},
                   {"attention_bias", false}}),
            3821079552);
  EXPECT_EQ(count({{"model_type", "olmo2"},
                   {"hidden_size", 4096},
                   {"intermediate_size", 11008},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32},
                   {"num_key_value_heads", 32},
                   {"vocab_size", 100352},
                   {"max_position_embeddings", 4096},
                   {"rope_scaling", nullptr},
                   {"rope_theta", 500000},
                   {"rms_norm_eps", 1e-6},
                   {"pad_token_id", 100277}}),
            7298617344);
  EXPECT_EQ(count({{"model_type", "gemma2"},
                   {"hidden_size", 2304},
                   {"intermediate_size", 9216},
                   {"num_hidden_layers", 26},
                   {"num_attention_heads", 8},
                   {"num_key_value_heads", 4},
                   {"head_dim", 256},
                   {"vocab_size", 256000},
                   {"max_position_embeddings", 8192},
                   {"rms_norm_eps", 1e-6},
                   {"pad_token_id", 0},
                   {"hidden_act", "gelu_pytorch_tanh"},
                   {"hidden_activation", "gelu_pytorch_tanh"},
                   {"query_pre_attn_scalar", 256},
                   {"sliding_window", 4096},
                   {"cache_implementation", "hybrid"},
                   {"attn_logit_softcapping", 50.0},
                   {"final_logit_softcapping", 30.0}}),
            2614341888);
  EXPECT_EQ(count({{"model_type", "deepseek_v2"},  // Lite
                   {"hidden_size", 2048},
                   {"intermediate_size", 10944},
                   {"moe_intermediate_size", 1408},
                   {"num_hidden_layers", 27},
                   {"num_attention_heads", 16},
                   {"num_key_value_heads", 16},
                   {"vocab_size", 102400},
                   {"max_position_embeddings", 163840},
                   {"kv_lora_rank", 512},
                   {"q_lora_rank", nullptr},
                   {"qk_nope_head_dim", 128},
                   {"qk_rope_head_dim", 64},
                   {"v_head_dim", 128},
                   {"first_k_dense_replace", 1},
                   {"moe_layer_freq", 1},
                   {"n_routed_experts", 64},
                   {"n_shared_experts", 2},
                   {"num_experts_per_tok", 6},
                   {"n_group", 1},
                   {"topk_group", 1},
                   {"topk_method", "greedy"},
                   {"scoring_func", "softmax"},
                   {"norm_topk_prob", false},
                   {"routed_scaling_factor", 1.0},
                   {"aux_loss_alpha", 0.001},
                   {"seq_aux", true},
                   {"ep_size", 1},
                   {"pretraining_tp", 1},
                   {"rope_scaling",
                    {{"type", "yarn"},
                     {"factor", 40},
                     {"original_max_position_embeddings", 4096},
                     {"beta_fast", 32},
                     {"beta_slow", 1},
                     {"mscale", 0.707},
                     {"mscale_all_dim", 0.707}}}}),
            15706484224);
  // The defaults of Transformers are DeepSeek-V3 itself: 671026404352 trained parameters, and corrections.
  EXPECT_EQ(count({{"model_type", "deepseek_v3"},
                   {"hidden_size", 7168},
                   {"intermediate_size", 18432},
                   {"num_hidden_layers", 61},
                   {"num_attention_heads", 128},
                   {"vocab_size", 129280},
                   {"num_nextn_predict_layers", 1}}),
            671026404352 + 58 * 256);
}

TEST(ModelRules, GroupsOfParameters) {
  std::unique_ptr<Model> model = make_model(tiny("llama"), "test");
  ParamSet& set = model->params();
  apply_rules(set, {{.match = "*.q_proj.weight", .lr_mult = 2, .wd_mult = 3},
                    {.match = "model.layers.1.*", .lr_mult = 5, .wd_mult = 7},
                    {.match = "*.mlp.*", .freeze = true},
                    {.match = "model.layers.0.mlp.*", .lr_mult = 11, .wd_mult = 13}});
  struct Want {
    const char* name;
    double lr, wd;
    bool trains;
  };
  for (const Want& w :
       {Want{"model.layers.0.self_attn.q_proj.weight", 2, 3, true},
        Want{"model.layers.1.self_attn.q_proj.weight", 2, 3, true},  // the first that fits counts
        Want{"model.layers.1.self_attn.k_proj.weight", 5, 7, true}, Want{"model.layers.0.self_attn.k_proj.weight", 1, 1, true},
        Want{"model.layers.1.mlp.up_proj.weight", 5, 7, false}, Want{"model.layers.0.mlp.up_proj.weight", 11, 13, false},
        Want{"lm_head.weight", 1, 1, true}}) {
    const Param& p = *set.find(w.name);
    EXPECT_EQ(p.policy.lr_mult, w.lr) << w.name;
    EXPECT_EQ(p.policy.wd_mult, w.wd) << w.name;
    EXPECT_EQ(p.policy.trainable, w.trains) << w.name;
  }
  auto refusal = [&](const std::string& pattern) -> std::string {
    try {
      apply_rules(set, {{.match = pattern, .freeze = true}});
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(refusal("model.layers.0.mlp.up_prj.weight").find("did you mean 'model.layers.0.mlp.up_proj.weight'?"),
            std::string::npos);
  EXPECT_NE(refusal("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz").find("pattern='zzz"), std::string::npos);
  EXPECT_NE(refusal("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz").find("the names are model.embed_tokens.weight .. lm_head.weight"),
            std::string::npos);
  EXPECT_NE(refusal("embed").find("write '*embed*', which matches model.embed_tokens.weight"), std::string::npos);
  EXPECT_NE(refusal("*lm_hea*x").find("for example"), std::string::npos);
}

TEST(ModelRules, FieldsOfAConfig) {
  const Json json{{"whole", 7.0}, {"half", 7.5},   {"text", "seven"}, {"low", 1},          {"high", 9}, {"null", nullptr},
                  {"flag", 1},    {"ids", {1, 2}}, {"id", 3},         {"words", {"a", 1}}, {"same", 7}};
  auto refusal = [&](auto&& f) -> std::string {
    ConfigReader r(json, "config.json");
    try {
      f(r);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  ConfigReader r(json, "config.json");
  EXPECT_EQ(r.integer("whole", 7, 7), 7) << "7.0 is whole; both ends are allowed";
  EXPECT_EQ(r.integer("absent", 1, 9, 5), 5);
  EXPECT_EQ(r.integer("null", 1, 9, 5), 5) << "null is as absent";
  EXPECT_EQ(r.number("half", 7.5, 7.5, 0), 7.5);
  EXPECT_EQ(r.ids("ids"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(r.ids("id"), (std::vector<int64_t>{3}));
  EXPECT_EQ(r.any_integer({"absent", "whole", "same"}, 1, 9), 7) << "two names that agree";
  EXPECT_EQ(r.any_integer({"absent", "gone"}, 1, 9, 4), 4);
  EXPECT_TRUE(r.boolean("absent", true));
  EXPECT_EQ(r.text("absent", "x"), "x");
  EXPECT_NE(refusal([](ConfigReader& c) { c.integer("low", 2, 9); }).find("'low' is 1"), std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) { c.integer("high", 2, 8); }).find("a whole number from 2 to 8"), std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) { c.integer("half", 1, 9); }).find("'half' is 7.5"), std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) { c.integer("text", 1, 9, 5); }).find("whole number"), std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) { c.integer("absent", 1, 9); }).find("'absent' is missing"), std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) {
              c.any_integer({"absent", "gone"}, 1, 9);
            }).find("'absent' is missing"),
            std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) {
              c.any_integer({"whole", "high"}, 1, 9);
            }).find("it must equal 'whole', which is 7"),
            std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) { c.number("half", 0, 7.4, 0); }).find("a number from 0 to 7.4"), std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) { c.boolean("flag", false); }).find("true or false"), std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) { c.text("low", ""); }).find("a string"), std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) { c.ids("text"); }).find("token id"), std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) { c.texts("words"); }).find("list of strings"), std::string::npos);
  EXPECT_NE(refusal([](ConfigReader& c) { c.only("low", 2, "reasons"); }).find("only 2 is supported: reasons"),
            std::string::npos);
  EXPECT_EQ(refusal([](ConfigReader& c) {
              c.only("null", 2, "reasons"), c.only("absent", 2, "reasons"), c.only("low", 1, "reasons");
            }),
            "");
}

TEST(ModelRules, TokensThatMeanSomething) {
  auto facts = [](const Json& more) { return make_model(tiny("llama", more), "config.json")->facts(); };
  const ModelFacts f = facts({{"bos_token_id", 4}, {"eos_token_id", {2, 5}}, {"pad_token_id", 3}});
  EXPECT_EQ(f.bos, 4);
  EXPECT_EQ(f.eos, (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(f.pad, 3);
  EXPECT_EQ(facts({{"pad_token_id", -1}}).pad, facts({{"pad_token_id", nullptr}}).pad) << "-1 is none";
  EXPECT_EQ(facts({{"pad_token_id", 18}}).pad, 18);
  EXPECT_THROW(facts({{"pad_token_id", 19}}), UserError) << "the vocabulary ends before it";
}

// The values that kernels get if a field is missing, and if it is set. The defaults are those in the classes of
// Transformers 4.
struct RecordedCalls {
  std::set<double> eps, head_eps;
  std::set<GeluForm> gelu;
  int64_t turned = 0;    // columns of the table of rotations
  double frequency = 0;  // of the second pair of columns
};
RecordedCalls& recorded() {
  static RecordedCalls a;
  return a;
}

RecordedCalls record_calls(const Json& config) {
  static const Kernels plain = ref_kernels();
  recorded() = {};
  Kernels k = plain;
  k.of<RmsNormForward>().run = [](const RmsNormForward& a, void* w) {
    recorded().eps.insert(a.eps), plain.of<RmsNormForward>().run(a, w);
  };
  k.of<LayerNormForward>().run = [](const LayerNormForward& a, void* w) {
    recorded().eps.insert(a.eps), plain.of<LayerNormForward>().run(a, w);
  };
  k.of<HeadNormForward>().run = [](const HeadNormForward& a, void* w) {
    recorded().head_eps.insert(a.eps), plain.of<HeadNormForward>().run(a, w);
  };
  k.of<GeluForward>().run = [](const GeluForward& a, void* w) {
    recorded().gelu.insert(a.form), plain.of<GeluForward>().run(a, w);
  };
  k.of<Rope>().run = [](const Rope& a, void* w) {
    recorded().turned = a.table.cols();
    recorded().frequency = std::acos(a.table.row<double>(1)[1]);
    plain.of<Rope>().run(a, w);
  };
  TinyBatch tokens;
  tokens.add(tiny_tokens(1, 5));
  TinyRun(config, DType::f64, Recompute::none, 0, {}, k).logits(tokens);
  return recorded();
}

TEST(ModelRules, NormsActivationsAndRotationsByDefault) {
  using Forms = std::set<GeluForm>;
  const std::vector<std::string> like_llama = {"llama", "mistral", "qwen2", "qwen3", "internlm", "aquila", "baichuan-7b"};
  for (const std::string& family : like_llama) {
    const double d = family == "qwen3" ? 8 : 4;
    const RecordedCalls plain = record_calls(tiny(family, Json::object(), {"rms_norm_eps", "rope_theta"}));
    EXPECT_EQ(plain.eps, std::set<double>{1e-6}) << family;
    EXPECT_EQ(plain.turned, d) << family;
    EXPECT_NEAR(plain.frequency, std::pow(10000, -2 / d), 1e-9) << family;
    EXPECT_EQ(plain.head_eps, family == "qwen3" ? std::set<double>{1e-6} : std::set<double>{}) << family;
    const RecordedCalls given = record_calls(tiny(family, {{"rms_norm_eps", 1e-4}, {"rope_theta", 500}}));
    EXPECT_EQ(given.eps, std::set<double>{1e-4}) << family;
    EXPECT_NEAR(given.frequency, std::pow(500, -2 / d), 1e-9) << family;
    EXPECT_EQ(given.head_eps, family == "qwen3" ? std::set<double>{1e-4} : std::set<double>{}) << family;
  }
  EXPECT_NEAR(record_calls(tiny("internlm", {{"rotary", {{"base", 300}, {"type", "dynamic"}}}})).frequency, std::pow(300, -0.5),
              1e-9);
  EXPECT_EQ(record_calls(tiny("baichuan-13b")).turned, 0) << "ALiBi turns nothing";
  for (const char* family : {"gpt2", "bloom"}) {
    EXPECT_EQ(record_calls(tiny(family)).eps, std::set<double>{1e-5}) << family;
    EXPECT_EQ(record_calls(tiny(family, {{"layer_norm_epsilon", 1e-3}})).eps, std::set<double>{1e-3}) << family;
    EXPECT_EQ(record_calls(tiny(family)).gelu, Forms{GeluForm::tanh}) << family;
  }
  for (const char* act : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
    EXPECT_EQ(record_calls(tiny("gpt2", {{"activation_function", act}})).gelu, Forms{GeluForm::tanh}) << act;
  EXPECT_EQ(record_calls(tiny("gpt2", {{"activation_function", "gelu"}})).gelu, Forms{GeluForm::exact});
  const Json wide{{"hidden_size", 32}};
  const RecordedCalls neox = record_calls(tiny("pythia", wide, {"rotary_pct"}));
  EXPECT_EQ(neox.eps, std::set<double>{1e-5});
  EXPECT_EQ(neox.gelu, Forms{GeluForm::exact});
  EXPECT_EQ(neox.turned, 4) << "a quarter of 16";
  EXPECT_NEAR(neox.frequency, std::pow(10000, -0.5), 1e-9);
  const RecordedCalls other = record_calls(tiny("pythia", {{"hidden_size", 32},
                                                           {"rotary_pct", 0.5},
                                                           {"rotary_emb_base", 700},
                                                           {"hidden_act", "gelu_new"},
                                                           {"layer_norm_eps", 1e-4}}));
  EXPECT_EQ(other.eps, std::set<double>{1e-4});
  EXPECT_EQ(other.gelu, Forms{GeluForm::tanh});
  EXPECT_EQ(other.turned, 8);
  EXPECT_NEAR(other.frequency, std::pow(700, -0.25), 1e-9);
}

// Tests the biases, the tied head and the width of the MLP.
TEST(ModelRules, ParametersByDefault) {
  struct Case {
    Json config;
    bool q, o, up, down, tied;
    int64_t width = 20;
  };
  const std::vector<Case> cases = {
      {tiny("llama"), false, false, false, false, false},
      {tiny("llama", {{"attention_bias", true}}), true, true, false, false, false},
      {tiny("llama", {{"mlp_bias", true}, {"tie_word_embeddings", true}}), false, false, true, true, true},
      {tiny("llama", Json::object(), {"tie_word_embeddings"}), false, false, false, false, false},
      {tiny("qwen2"), true, false, false, false, false},
      {tiny("qwen3"), false, false, false, false, true},
      {tiny("qwen3", {{"attention_bias", true}}, {"tie_word_embeddings"}), true, true, false, false, false},
      {tiny("internlm", Json::object(), {"bias"}), true, true, false, false, false},
      {tiny("internlm", {{"bias", false}}), false, false, false, false, false},
      {tiny("bloom"), true, true, true, true, true, 48},
      {tiny("bloom", {{"tie_word_embeddings", false}}), true, true, true, true, false, 48},
      {tiny("gpt2"), true, true, true, true, true, 48},
      {tiny("gpt2", {{"n_inner", 28}, {"tie_word_embeddings", false}}), true, true, true, true, false, 28},
      {tiny("pythia"), true, true, true, true, false},
      {tiny("pythia", {{"attention_bias", false}}), false, false, true, true, false},
      {tiny("pythia-serial"), true, true, true, true, true},
  };
  for (const Case& k : cases) {
    std::unique_ptr<Model> model = make_model(k.config, "test");
    ParamSet& set = model->params();
    const std::string layer = "model.layers.1.", what = k.config.dump();
    EXPECT_EQ(set.find(layer + "self_attn.q_proj.bias") != nullptr, k.q) << what;
    EXPECT_EQ(set.find(layer + "self_attn.v_proj.bias") != nullptr, k.q) << what;
    EXPECT_EQ(set.find(layer + "self_attn.o_proj.bias") != nullptr, k.o) << what;
    EXPECT_EQ(set.find(layer + "mlp.up_proj.bias") != nullptr, k.up) << what;
    EXPECT_EQ(set.find(layer + "mlp.down_proj.bias") != nullptr, k.down) << what;
    EXPECT_EQ(set.find("lm_head.weight") == nullptr, k.tied) << what;
    EXPECT_EQ(set.find(layer + "mlp.up_proj.weight")->shape[0], k.width) << what;
    for (const Param& p : set.params()) {
      const bool vector = p.name.ends_with(".bias") || p.name.find("norm") != std::string::npos;
      EXPECT_EQ(p.decay, !vector) << p.name << ": norms and biases do not decay";
      EXPECT_TRUE(p.policy.trainable) << p.name;
    }
  }
}

}  // namespace test_model_rules
}  // namespace ravine

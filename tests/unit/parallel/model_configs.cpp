// The models of configs/: parameter counts to the unit, on meta and without memory; every run file is a valid config
// that names one.
#include <filesystem>

#include "config/load.h"
#include "model/layers/attention.h"
#include "tests/unit/families.h"

namespace ravine {
namespace test_model_configs {

namespace fs = std::filesystem;
const std::string kConfigs = RAVINE_SOURCE_DIR "/configs/";

// As published, or by hand from the shapes: embedding and head, and per layer attention, MLP, norms, biases.
const std::map<std::string, int64_t> kParameters = {
    {"aquila-7b", 7295537152},      {"baichuan-7b", 7000559616}, {"baichuan-13b", 13264901120}, {"baichuan2-7b", 7505973248},
    {"baichuan2-13b", 13896668160}, {"bloom-7b1", 7069016064},   {"bloom-176b", 176247271424},  {"internlm-7b", 7321948160},
    {"internlm-65b", 66454298624},  {"llama-7b", 6738415616},    {"llama-13b", 13015864320},    {"llama-33b", 32528943616},
    {"llama-65b", 65285660672},     {"llama2-7b", 6738415616},   {"llama2-13b", 13015864320},   {"llama2-34b", 33743970304},
    {"llama2-70b", 68976648192},
};

TEST(ModelConfigs, ParametersToTheUnit) {
  size_t found = 0;
  for (const auto& e : fs::directory_iterator(kConfigs + "models")) {
    auto model = open_model(e.path().string());
    auto known = kParameters.find(e.path().stem().string());
    ASSERT_NE(known, kParameters.end()) << e.path();
    EXPECT_EQ(model->params().count(), known->second) << e.path();
    ++found;
    // Files hold the same number of elements, each tensor once.
    int64_t stored = 0;
    for (const FileTensor& t : model->files().tensors) stored += t.shape.count();
    EXPECT_EQ(stored, known->second) << e.path();
    // A store on meta takes its bytes from the shapes.
    FlatStore store(model->params(), Types::of(DType::bf16), DeviceKind::meta);
    EXPECT_GE(store.weight_bytes(), 4 * known->second) << e.path();
  }
  EXPECT_EQ(found, kParameters.size());
}

TEST(ModelConfigs, RunFilesAreValidAndNameAModel) {
  std::set<std::string> runs;
  for (const auto& e : fs::directory_iterator(kConfigs)) {
    if (e.path().extension() != ".yaml" || e.path().stem() == "demo") continue;
    Config c = load_config(e.path().string());
    if (!kParameters.count(e.path().stem().string())) {  // an example of something else
      EXPECT_TRUE(fs::exists(kConfigs + "../" + c.model.config)) << e.path();
      continue;
    }
    EXPECT_EQ(c.model.config, "configs/models/" + e.path().stem().string() + ".json") << e.path();
    ModelFacts f = open_model(kConfigs + "models/" + e.path().stem().string() + ".json")->facts();
    EXPECT_TRUE(f.max_positions == 0 || c.data.sequence_length <= f.max_positions) << e.path();
    runs.insert(e.path().stem().string());
  }
  for (auto& [name, count] : kParameters) EXPECT_TRUE(runs.count(name)) << name;
}

// Published files write more than Ravine reads, and other programs' fields: these are known to say nothing, others are
// refused by name.
TEST(ModelConfigs, UnknownFieldsAreRefusedByName) {
  for (auto& [name, config] : tiny_families()) {
    Json c = config;
    c["rotary_swirl"] = 3;
    try {
      make_model(c, "config.json");
      ADD_FAILURE() << name;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find("rotary_swirl"), std::string::npos) << name << ": " << e.what();
    }
  }
}

std::string refusal(const std::string& family, const Json& more) {
  Json c = tiny_families().at(family);
  c.update(more);
  try {
    make_model(c, "config.json");
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(ModelConfigs, WhatWouldChangeTheNumbersIsRefused) {
  const std::vector<std::tuple<std::string, Json, std::string>> cases = {
      {"bloom", {{"apply_residual_connection_post_layernorm", true}}, "apply_residual_connection_post_layernorm"},
      {"bloom", {{"n_inner", 100}}, "n_inner"},
      {"bloom", {{"hidden_size", 24}}, "it must equal 'n_embed'"},
      {"bloom", {{"n_head", 5}, {"num_attention_heads", nullptr}}, "it must divide the hidden size"},
      {"gpt2", {{"activation_function", "relu"}}, "gelu_new"},
      {"gpt2", {{"n_embd", nullptr}}, "n_embd"},
      {"pythia", {{"rotary_pct", 0.5}}, "even number of dims"},
      {"pythia", {{"hidden_act", "swish"}}, "hidden_act"},
      {"baichuan2-7b", {{"z_loss_weight", 0.1}}, "z_loss_weight"},
      {"baichuan-7b", {{"num_key_value_heads", 1}}, "num_key_value_heads"},
      {"baichuan-13b", {{"model_max_length", nullptr}}, "model_max_length"},
      {"qwen2", {{"layer_types", {"full_attention"}}}, "one entry for each"},
      {"qwen2", {{"layer_types", {"full_attention", "linear_attention"}}}, "full_attention or sliding_attention"},
      {"qwen3", {{"layer_types", {"full_attention", "sliding_attention"}}}, "use_sliding_window"},
      {"internlm", {{"rotary", {{"type", "spiral"}}}}, "origin or dynamic"},
      {"internlm", {{"rotary", {{"turns", 2}}}}, "turns"},
      {"mistral", {{"sliding_window", 0}}, "sliding_window"},
      {"llama", {{"hidden_act", "gelu"}}, "hidden_act"},
      {"llama", {{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}, "whole heads"},
      {"aquila", {{"head_dim", 3}}, "head_dim"},
      {"deepseek_v3-experts", {{"num_experts_per_tok", 5}}, "2 groups of 2 experts hold fewer"},
      {"deepseek_v3-experts", {{"n_group", 6}}, "2 groups of 1 experts hold fewer"},
      {"deepseek_v3-experts", {{"n_group", 4}}, "do not divide"},
      {"deepseek_v3-experts", {{"topk_method", "best"}}, "noaux_tc"},
      {"deepseek_v3-experts", {{"scoring_func", "tanh"}}, "sigmoid"},
      {"deepseek_v3-experts", {{"moe_layer_freq", 2}}, "moe_layer_freq"},
      {"deepseek_v2-experts", {{"topk_method", "noaux_tc"}}, "group_limited_greedy"},
      {"deepseek_v2-experts", {{"norm_topk_prob", true}}, "norm_topk_prob"},
      {"deepseek_v2-experts", {{"num_experts_per_tok", nullptr}}, "num_experts_per_tok"},
      {"deepseek_v3", {{"num_key_value_heads", 1}}, "num_key_value_heads"},
      {"deepseek_v3", {{"head_dim", 10}}, "head_dim"},
      {"deepseek_v3", {{"qk_rope_head_dim", 5}}, "qk_rope_head_dim"},
      {"deepseek_v3", {{"mlp_bias", true}}, "mlp_bias"},
      {"deepseek_v3", {{"hidden_act", "gelu"}}, "hidden_act"},
      {"deepseek_v2", {{"rope_interleave", false}}, "rope_interleave"},
  };
  for (auto& [family, more, word] : cases) {
    std::string what = refusal(family, more);
    EXPECT_NE(what.find(word), std::string::npos) << family << " " << more.dump() << ": " << what;
  }
}

TEST(ModelConfigs, DropoutIsOfTraining) {
  EXPECT_EQ(refusal("pythia", {{"attention_dropout", 0.1}, {"hidden_dropout", 0.2}}), "");
  EXPECT_EQ(refusal("bloom", {{"attention_dropout", 0.1}, {"hidden_dropout", 0.2}}), "");
  EXPECT_EQ(refusal("gpt2", {{"attn_pdrop", 0.1}, {"resid_pdrop", 0.1}, {"embd_pdrop", 0.1}}), "");
  EXPECT_EQ(refusal("llama", {{"attention_dropout", 0.1}}), "");
}

// Defaults of Transformers for missing fields: MistralConfig.sliding_window, Qwen3Config.head_dim, and so on.
TEST(ModelConfigs, DefaultsAreThoseOfTransformers) {
  const Json none = Json::object();
  auto model = [](const std::string& family, const Json& more, const std::vector<std::string>& without) {
    Json c = tiny_families().at(family);
    c.update(more);
    for (const std::string& key : without) c.erase(key);
    return make_model(c, "config.json");
  };
  auto facts = [&](const std::string& family, const Json& more, const std::vector<std::string>& without) {
    return model(family, more, without)->facts();
  };
  auto window = [&](const Json& more, const std::vector<std::string>& without) {
    return model("mistral", more, without)->decoder()->window(0);
  };
  EXPECT_EQ(window(none, {"sliding_window"}), 4096);
  EXPECT_EQ(window({{"sliding_window", nullptr}}, {}), 0) << "null switches it off";
  EXPECT_EQ(window(none, {}), 3);
  EXPECT_EQ(facts("mistral", none, {"head_dim"}).head_size, 4) << "the hidden size over the heads";
  EXPECT_EQ(facts("qwen3", none, {"head_dim"}).head_size, 128);
  EXPECT_EQ(facts("qwen2", none, {"head_dim"}).head_size, 4);
  EXPECT_EQ(facts("llama", none, {"head_dim"}).head_size, 4);
  EXPECT_EQ(facts("llama", none, {"num_key_value_heads"}).kv_heads, 3) << "as many as heads";
  EXPECT_EQ(facts("gpt2", none, {"n_positions"}).max_positions, 1024);
  // And the model is built so: the width of q is heads * head size.
  Json qwen3 = tiny_families().at("qwen3");
  qwen3.erase("head_dim");
  EXPECT_EQ(make_model(qwen3, "config.json")->params().find("model.layers.0.self_attn.q_proj.weight")->shape[0], 3 * 128);
}

// The window that each layer asks the attention kernel for.
std::vector<int64_t> windows_of(const Json& config) {
  static std::vector<int64_t> windows;
  static const Kernel<AttentionForward> attention = ref_kernels().of<AttentionForward>();
  windows.clear();
  Kernels spying = ref_kernels();
  spying.of<AttentionForward>().run = [](const AttentionForward& a, void* workspace) {
    windows.push_back(a.at.window);
    attention.run(a, workspace);
  };
  TinyBatch tokens;
  tokens.add(tiny_tokens(1, 5));
  TinyRun(config, DType::f64, Recompute::none, 0, {}, spying).logits(tokens);
  return windows;
}

TEST(ModelConfigs, LayersUseTheirWindow) {
  using Windows = std::vector<int64_t>;
  const Json none = Json::object();
  auto windows = [](const std::string& family, const Json& more, const std::vector<std::string>& without) {
    Json c = tiny_families().at(family);
    c.update(more);
    for (const std::string& key : without) c.erase(key);
    return windows_of(c);
  };
  EXPECT_EQ(windows("mistral", none, {}), (Windows{3, 3}));
  EXPECT_EQ(windows("mistral", none, {"sliding_window"}), (Windows{4096, 4096}));
  EXPECT_EQ(windows("mistral", {{"sliding_window", nullptr}}, {}), (Windows{0, 0}));
  EXPECT_EQ(windows("llama", none, {}), (Windows{0, 0}));
  for (const char* family : {"qwen2", "qwen3"}) {
    const Json on{{"use_sliding_window", true}, {"sliding_window", 3}, {"max_window_layers", 1}};
    auto with = [&](const Json& more) {
      Json c = on;
      c.update(more);
      return c;
    };
    EXPECT_EQ(windows(family, on, {}), (Windows{0, 3})) << family;
    EXPECT_EQ(windows(family, on, {"sliding_window"}), (Windows{0, 4096}))
        << family << ": what is switched on and not given has Transformers' default";
    EXPECT_EQ(windows(family, on, {"max_window_layers"}), (Windows{0, 0})) << family << ": from layer 28 on";
    EXPECT_EQ(windows(family, with({{"sliding_window", nullptr}}), {}), (Windows{0, 0})) << family;
    EXPECT_EQ(windows(family, on, {"use_sliding_window"}), (Windows{0, 0})) << family;
    EXPECT_EQ(windows(family, with({{"use_sliding_window", false}, {"sliding_window", 0}}), {}), (Windows{0, 0}))
        << family << ": of what is switched off the size says nothing";
    EXPECT_NE(refusal(family, with({{"sliding_window", 0}})).find("sliding_window"), std::string::npos) << family;
    EXPECT_EQ(windows(family, with({{"layer_types", {"sliding_attention", "full_attention"}}}), {}), (Windows{3, 0})) << family;
  }
}

TEST(ModelConfigs, Slopes) {
  auto four = alibi_slopes(4), six = alibi_slopes(6);
  EXPECT_EQ(four, (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625}));
  EXPECT_EQ(six, (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125}));
}

}  // namespace test_model_configs
}  // namespace ravine

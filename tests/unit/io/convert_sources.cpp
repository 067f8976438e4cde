// Contents of other programs' checkpoints that Ravine's conversions never write: arguments and spellings of Megatron,
// frozen and shared parameters of DeepSpeed, optimizer's tensors of MindFormers. Also the arguments that Ravine writes
// for each family.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <numeric>
#include <set>

#include "files/folder_mark.h"
#include "files/safetensors.h"
#include "files/torch_save.h"
#include "io/adapter_folder.h"
#include "io/convert/convert.h"
#include "io/convert/deepspeed.h"
#include "io/convert/megatron.h"
#include "io/convert/megatron_folder.h"
#include "io/convert/mindformers.h"
#include "io/manifest.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_convert_sources {

using Values = std::function<void(TorchSave&)>;
using Tensors = std::vector<std::pair<std::string, Shape>>;

// The bytes of f32 tensors, in the order in which they were named: each counts up from 100 times its number.
void write_counting(TorchSave& out, const Tensors& tensors) {
  for (size_t t = 0; t < tensors.size(); ++t) {
    std::vector<float> v(static_cast<size_t>(tensors[t].second.count()));
    std::iota(v.begin(), v.end(), static_cast<float>(1000 * t));
    out.write(std::as_bytes(std::span(v)));
  }
}

std::vector<float> values_of(const Elements& e) {
  std::vector<float> v(static_cast<size_t>(e.count()));
  e.read(0, std::as_writable_bytes(std::span(v)));
  return v;
}

constexpr int64_t kHidden = 8, kFfn = 12, kRows = 5;

// A Megatron checkpoint of one rank and one layer of 2 heads.
Weights megatron(const TemporaryFolder& folder, const Values& arguments, const Tensors& tensors, const Json& config = Json()) {
  std::filesystem::remove_all(folder / "mg");
  std::filesystem::create_directories(folder / "mg/mp_rank_00");
  TorchSave out(folder / "mg/mp_rank_00/model_optim_rng.pt");
  out.begin_dict();
  out.text("args"), out.begin_namespace();
  for (const auto& [key, v] : {std::pair{"num_layers", int64_t{1}},
                               {"hidden_size", kHidden},
                               {"ffn_hidden_size", kFfn},
                               {"num_attention_heads", 2},
                               {"true_vocab_size", kRows}})
    out.text(key), out.integer(v);
  if (arguments) arguments(out);
  out.end();
  out.text("checkpoint_version"), out.real(3.0);
  out.text("model"), out.begin_ordered_dict();
  for (const auto& [name, shape] : tensors) out.text(name), out.tensor(DType::f32, shape);
  out.end();
  out.end();
  write_counting(out, tensors);
  out.commit();
  return read_megatron(folder / "mg", config, "config.json", false);
}

Values integer(const char* key, int64_t v) {
  return [=](TorchSave& out) { out.text(key), out.integer(v); };
}
Values real(const char* key, double v) {
  return [=](TorchSave& out) { out.text(key), out.real(v); };
}
Values flag(const char* key, bool v) {
  return [=](TorchSave& out) { out.text(key), out.boolean(v); };
}
Values word(const char* key, const char* v) {
  return [=](TorchSave& out) { out.text(key), out.text(v); };
}
Values both(Values a, Values b) {
  return [a = std::move(a), b = std::move(b)](TorchSave& out) { a(out), b(out); };
}

TEST(MegatronArguments, DescribeTheModel) {
  TemporaryFolder folder;
  const Tensors rms{{"embedding.word_embeddings.weight", {kRows, kHidden}},
                    {"decoder.layers.0.input_layernorm.weight", {kHidden}}};
  auto with = [](Tensors t, const Tensors& more) { return t.insert(t.end(), more.begin(), more.end()), t; };
  const std::string layer = "decoder.layers.0.";
  const Tensors::value_type qkv_bias{layer + "self_attention.linear_qkv.bias", {3 * kHidden}},
      o_bias{layer + "self_attention.linear_proj.bias", {kHidden}}, head{"output_layer.weight", {kRows, kHidden}},
      norms{layer + "self_attention.q_layernorm.weight", {kHidden / 2}};
  const Tensors layer_norm = with(rms, {{layer + "input_layernorm.bias", {kHidden}}});
  const Tensors bloom = with(layer_norm, {{"embedding.norm.weight", {kHidden}}}),
                gpt2 = with(layer_norm, {{"embedding.position_embeddings.weight", {77, kHidden}}});
  const struct {
    const char* what;
    Values arguments;
    Tensors tensors;
    Json want;  // fields; null: not there
  } cases[] = {
      {"nothing but sizes",
       {},
       rms,
       {{"model_type", "llama"},
        {"num_key_value_heads", 2},
        {"head_dim", 4},
        {"max_position_embeddings", 2048},
        {"rms_norm_eps", 1e-5},
        {"rope_theta", 10000.0},
        {"tie_word_embeddings", true},
        {"attention_bias", false},
        {"mlp_bias", false},
        {"hidden_act", "silu"},
        {"vocab_size", kRows},
        {"intermediate_size", kFfn},
        {"num_hidden_layers", 1},
        {"num_attention_heads", 2}}},
      {"the default of --num-query-groups without --group-query-attention",
       both(flag("group_query_attention", false), integer("num_query_groups", 1)),
       rms,
       {{"num_key_value_heads", 2}}},
      {"groups", both(flag("group_query_attention", true), integer("num_query_groups", 1)), rms, {{"num_key_value_heads", 1}}},
      {"wide heads", integer("kv_channels", 6), rms, {{"head_dim", 6}}},
      {"an older file", integer("seq_length", 33), rms, {{"max_position_embeddings", 33}}},
      {"both lengths",
       both(integer("seq_length", 33), integer("max_position_embeddings", 44)),
       rms,
       {{"max_position_embeddings", 44}}},
      {"the older name of eps", real("layernorm_epsilon", 2e-6), rms, {{"rms_norm_eps", 2e-6}}},
      {"both names of eps", both(real("layernorm_epsilon", 2e-6), real("norm_epsilon", 3e-6)), rms, {{"rms_norm_eps", 3e-6}}},
      {"a whole base", integer("rotary_base", 50000), rms, {{"rope_theta", 50000.0}}},
      {"another base", real("rotary_base", 12345.5), rms, {{"rope_theta", 12345.5}}},
      {"a head", {}, with(rms, {head}), {{"tie_word_embeddings", false}}},
      {"a head that the arguments tie, of other values than the embedding",  // a copy: tests/e2e/own_head.py
       flag("untie_embeddings_and_output_weights", false),
       with(rms, {head}),
       {{"tie_word_embeddings", false}}},
      {"biases of q, k, v alone", {}, with(rms, {qkv_bias}), {{"model_type", "qwen2"}, {"attention_bias", nullptr}}},
      {"biases of attention",
       {},
       with(rms, {qkv_bias, o_bias}),
       {{"model_type", "llama"}, {"attention_bias", true}, {"mlp_bias", false}}},
      {"biases of the MLP",
       {},
       with(rms, {{layer + "mlp.linear_fc1.bias", {2 * kFfn}}}),
       {{"model_type", "llama"}, {"attention_bias", false}, {"mlp_bias", true}}},
      {"norms of q and k", {}, with(rms, {norms}), {{"model_type", "qwen3"}, {"attention_bias", false}}},
      {"and biases", {}, with(rms, {norms, qkv_bias}), {{"model_type", "qwen3"}, {"attention_bias", true}}},
      {"ALiBi",
       both(word("position_embedding_type", "alibi"), integer("seq_length", 33)),
       rms,
       {{"model_type", "baichuan"},
        {"model_max_length", 33},
        {"max_position_embeddings", nullptr},
        {"rope_theta", nullptr},
        {"z_loss_weight", nullptr}}},
      {"Baichuan2",
       both(word("position_embedding_type", "alibi"), flag("lm_norm_weight", true)),
       rms,
       {{"model_type", "baichuan"}, {"z_loss_weight", 0}}},
      {"another kind of positions", word("position_embedding_type", "rope"), rms, {{"model_type", "llama"}}},
      {"a norm behind the embedding",
       real("layernorm_epsilon", 2e-6),
       bloom,
       {{"model_type", "bloom"},
        {"n_layer", 1},
        {"n_head", 2},
        {"hidden_size", kHidden},
        {"layer_norm_epsilon", 2e-6},
        {"tie_word_embeddings", true}}},
      {"a table of positions",
       both(integer("max_position_embeddings", 77), real("norm_epsilon", 2e-6)),
       gpt2,
       {{"model_type", "gpt2"},
        {"n_positions", 77},
        {"n_inner", kFfn},
        {"n_embd", kHidden},
        {"n_layer", 1},
        {"n_head", 2},
        {"layer_norm_epsilon", 2e-6},
        {"activation_function", "gelu_new"}}},
      {"its exact GELU",
       both(integer("max_position_embeddings", 77), flag("openai_gelu", false)),
       gpt2,
       {{"activation_function", "gelu"}}},
      {"its fused GELU, which is the tanh form",
       both(integer("max_position_embeddings", 77), both(flag("bias_gelu_fusion", true), flag("openai_gelu", false))),
       gpt2,
       {{"activation_function", "gelu_new"}}},
      {"a fused GELU with rotary positions",
       both(flag("bias_gelu_fusion", true), flag("openai_gelu", false)),
       layer_norm,
       {{"hidden_act", "gelu_new"}}},
      {"its unfused GELU",
       both(integer("max_position_embeddings", 77), both(flag("bias_gelu_fusion", false), flag("openai_gelu", false))),
       gpt2,
       {{"activation_function", "gelu"}}},
      {"its GELU by tanh",
       both(integer("max_position_embeddings", 77), flag("openai_gelu", true)),
       gpt2,
       {{"activation_function", "gelu_new"}}},
      {"LayerNorm alone",
       both(integer("max_position_embeddings", 77), real("rotary_base", 500)),
       layer_norm,
       {{"model_type", "gpt_neox"},
        {"max_position_embeddings", 77},
        {"use_parallel_residual", false},
        {"hidden_act", "gelu"},
        {"rotary_pct", 1.0},
        {"rotary_emb_base", 500.0},
        {"layer_norm_eps", 1e-5}}},
      {"with a part of the rotation",
       both(real("rotary_percent", 0.5), flag("openai_gelu", true)),
       layer_norm,
       {{"hidden_act", "gelu_new"}, {"rotary_pct", 0.5}, {"rotary_emb_base", 10000.0}}},
  };
  for (const auto& c : cases) {
    const Weights w = megatron(folder, c.arguments, c.tensors);
    for (const auto& [key, value] : c.want.items()) EXPECT_EQ(w.config.value(key, Json()), value) << c.what << ": " << key;
    EXPECT_EQ(w.tensors.contains("lm_head.weight"), !w.config["tie_word_embeddings"]) << c.what;
  }
}

Json llama() {
  return {{"model_type", "llama"},    {"hidden_size", kHidden},   {"intermediate_size", kFfn}, {"num_hidden_layers", 1},
          {"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"vocab_size", kRows},       {"tie_word_embeddings", false}};
}

TEST(MegatronNames, AreReadInEverySpelling) {
  TemporaryFolder folder;
  const Tensors core{{"embedding.word_embeddings.weight", {kRows, kHidden}},
                     {"decoder.layers.0.input_layernorm.weight", {kHidden}},
                     {"decoder.layers.0.self_attention.linear_qkv.weight", {16, kHidden}},
                     {"decoder.layers.0.self_attention.linear_proj.weight", {kHidden, kHidden}},
                     {"decoder.layers.0.pre_mlp_layernorm.weight", {kHidden}},
                     {"decoder.layers.0.mlp.linear_fc1.weight", {2 * kFfn, kHidden}},
                     {"decoder.layers.0.mlp.linear_fc2.weight", {kHidden, kFfn}},
                     {"decoder.final_layernorm.weight", {kHidden}},
                     {"output_layer.weight", {kRows, kHidden}}};
  auto read = [&](const Tensors& t) {
    std::map<std::string, std::vector<float>> out;
    for (const auto& [name, e] : megatron(folder, {}, t, llama()).tensors) out[name] = values_of(*e);
    return out;
  };
  const auto want = read(core);
  ASSERT_EQ(want.size(), 12u);
  // Two query heads and one of keys and values in 16 rows, gate and up in 24.
  auto rows = [&](const char* name, size_t tensor, int64_t first, int64_t count) {
    std::vector<float> v(static_cast<size_t>(count * kHidden));
    std::iota(v.begin(), v.end(), static_cast<float>(1000 * tensor) + static_cast<float>(first * kHidden));
    EXPECT_EQ(want.at(layer_name(0, name)), v) << name;
  };
  rows("self_attn.q_proj.weight", 2, 0, 8), rows("self_attn.k_proj.weight", 2, 8, 4), rows("self_attn.v_proj.weight", 2, 12, 4);
  rows("mlp.gate_proj.weight", 5, 0, kFfn), rows("mlp.up_proj.weight", 5, kFfn, kFfn);
  const std::string layer = "decoder.layers.0.";
  const std::vector<std::pair<std::string, std::vector<std::string>>> spellings{
      {"embedding.word_embeddings.weight",
       {"language_model.embedding.word_embeddings.weight", "module.embedding.word_embeddings.weight",
        "module.language_model.embedding.word_embeddings.weight"}},
      {layer + "input_layernorm.weight",
       {layer + "input_norm.weight", layer + "self_attention.linear_qkv.layer_norm_weight",
        "transformer.layers.0.input_layernorm.weight", "encoder.layers.0.input_norm.weight"}},
      {layer + "self_attention.linear_qkv.weight",
       {layer + "self_attention.query_key_value.weight",
        "language_model.encoder.layers.0.self_attention.query_key_value.weight"}},
      {layer + "self_attention.linear_proj.weight",
       {layer + "self_attention.dense.weight", "language_model.transformer.layers.0.self_attention.dense.weight"}},
      {layer + "pre_mlp_layernorm.weight",
       {layer + "post_attention_norm.weight", layer + "post_attention_layernorm.weight",
        layer + "mlp.linear_fc1.layer_norm_weight"}},
      {layer + "mlp.linear_fc1.weight",
       {layer + "mlp.dense_h_to_4h.weight", layer + "mlp.proj.weight", "module.decoder.layers.0.mlp.linear_fc1.weight"}},
      {layer + "mlp.linear_fc2.weight", {layer + "mlp.dense_4h_to_h.weight"}},
      {"decoder.final_layernorm.weight",
       {"decoder.final_norm.weight", "encoder.final_norm.weight", "encoder.final_layernorm.weight",
        "transformer.final_layernorm.weight", "language_model.encoder.final_norm.weight"}},
      {"output_layer.weight", {"language_model.output_layer.weight", "module.output_layer.weight"}},
  };
  for (const auto& [name, others] : spellings)
    for (const std::string& other : others) {
      Tensors t = core;
      for (auto& [n, shape] : t)
        if (n == name) n = other;
      EXPECT_EQ(read(t), want) << other;
    }
  // Entries that hold no weights.
  for (const char* more : {"decoder.layers.0.self_attention.rotary_emb.inv_freq",
                           "decoder.layers.0.mlp.linear_fc1._extra_state", "word_embeddings_for_head.weight",
                           "module.word_embeddings_for_head.weight", "language_model.word_embeddings_for_head.weight"}) {
    Tensors t = core;
    t.push_back({more, {3}});
    EXPECT_EQ(read(t), want) << more;
  }
  // Gate and up apart, where dense_h_to_4h is up.
  Tensors apart = core;
  apart[5] = {layer + "mlp.gate_proj.weight", {kFfn, kHidden}};
  apart.push_back({layer + "mlp.dense_h_to_4h.weight", {kFfn, kHidden}});
  const auto got = read(apart);
  EXPECT_EQ(got.at(layer_name(0, "mlp.gate_proj.weight"))[0], 5000);
  EXPECT_EQ(got.at(layer_name(0, "mlp.up_proj.weight"))[0], 9000);
}

TEST(MegatronFolders, TheTrackerNamesTheStepAndTheOlderFileIsTaken) {
  TemporaryFolder folder;
  const Tensors t{{"embedding.word_embeddings.weight", {kRows, kHidden}},
                  {"decoder.layers.0.input_layernorm.weight", {kHidden}}};
  megatron(folder, {}, t);
  namespace fs = std::filesystem;
  fs::rename(folder / "mg/mp_rank_00/model_optim_rng.pt", folder / "mg/mp_rank_00/model_rng.pt");
  EXPECT_EQ(open_megatron(folder / "mg", StateKind::weights).tensor, 1);
  fs::create_directories(folder / "run");
  fs::rename(folder / "mg", folder / "run/iter_0000120");
  for (const char* text : {"120", "120\n", " 120 \n"}) {
    spill(folder / "run/latest_checkpointed_iteration.txt", text);
    EXPECT_EQ(open_megatron(folder / "run", StateKind::weights).path, folder / "run/iter_0000120") << text;
  }
  for (const char* text : {"", "12x", "-1", "120.0"}) {
    spill(folder / "run/latest_checkpointed_iteration.txt", text);
    EXPECT_NE(message_of<UserError>([&] { open_megatron(folder / "run", StateKind::weights); }).find("bad tracker file"),
              std::string::npos)
        << text;
  }
  fs::remove(folder / "run/latest_checkpointed_iteration.txt");
  spill(folder / "run/latest", "iter_0000120\n");
  EXPECT_EQ(open_megatron(folder / "run", StateKind::weights).path, folder / "run/iter_0000120") << "as DeepSpeed names it";
}

TEST(MegatronNotes, NameWhatTheArgumentsCannot) {
  auto notes = [](Json config, MegatronNames names) {
    std::vector<std::string> out;
    megatron_notes(geometry_of(config, "test"), {names}, out);
    return out.size();
  };
  auto with = [](Json c, const Json& more) { return c.update(more), c; };
  EXPECT_EQ(notes(llama(), MegatronNames::legacy), 0u);
  EXPECT_EQ(notes(with(llama(), {{"rope_theta", 10000}, {"rope_scaling", nullptr}}), MegatronNames::legacy), 0u);
  EXPECT_EQ(notes(with(llama(), {{"model_type", "qwen2"}, {"use_sliding_window", false}}), MegatronNames::mcore), 0u);
  EXPECT_EQ(
      notes(with(llama(),
                 {{"model_type", "qwen2"}, {"use_sliding_window", true}, {"sliding_window", 3}, {"max_window_layers", 0}}),
            MegatronNames::mcore),
      1u);
  EXPECT_EQ(notes(with(llama(), {{"rope_theta", 50000}}), MegatronNames::legacy), 1u);
  EXPECT_EQ(
      notes(with(llama(), {{"rope_parameters", {{"rope_theta", 50000}, {"rope_type", "default"}}}}), MegatronNames::legacy),
      1u);
  EXPECT_EQ(notes(with(llama(), {{"rope_theta", 50000}}), MegatronNames::mcore), 0u) << "newer ones take the argument";
  EXPECT_EQ(notes(with(llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}), MegatronNames::mcore), 1u);
  const Json neox{{"model_type", "gpt_neox"}, {"hidden_size", kHidden}, {"intermediate_size", kFfn}, {"num_hidden_layers", 1},
                  {"num_attention_heads", 2}, {"vocab_size", kRows},    {"rotary_pct", 0.5}};
  EXPECT_EQ(notes(neox, MegatronNames::mcore), 1u) << "side by side is the default";
  EXPECT_EQ(notes(with(neox, {{"use_parallel_residual", true}}), MegatronNames::mcore), 1u);
  EXPECT_EQ(notes(with(neox, {{"use_parallel_residual", false}}), MegatronNames::mcore), 0u);
}

// --- what our arguments say

// A model of zeros in Hugging Face's files, as Megatron: its arguments.
struct Written {
  Written(const TemporaryFolder& folder, const Json& config, std::optional<DType> dtype = {}) {
    static int number = 0;
    const std::string in = folder / fmt::format("hf{}", ++number), out = folder / fmt::format("mg{}", number);
    std::filesystem::create_directories(in);
    spill(in + "/config.json", config.dump());
    const auto model = make_model(config, "test");
    const std::vector<std::byte> zeros(1 << 16);
    std::vector<TensorBytes> tensors;
    for (const FileTensor& t : model->files().tensors)
      tensors.push_back({t.name, DType::f32, t.shape, std::span(zeros).first(static_cast<size_t>(t.shape.count() * 4))});
    save_safetensors(in + "/model.safetensors", tensors);
    convert_weights({.input = in, .output = out, .to = ConvertTarget::megatron_mcore, .dtype = dtype}, [](int64_t, int64_t) {});
    file = std::make_shared<TorchFile>(out + "/release/mp_rank_00/model_optim_rng.pt");
  }
  bool is(const char* key) const { return argument(*file, key).value_or(-1) == 1; }
  std::shared_ptr<const TorchFile> file;
};

TEST(MegatronArguments, OfEveryFamilyNameItsParts) {
  TemporaryFolder folder;
  auto with = [](Json c, const Json& more) { return c.update(more), c; };
  const Json gpt2{{"model_type", "gpt2"}, {"n_embd", kHidden},   {"n_layer", 1},
                  {"n_head", 2},          {"vocab_size", kRows}, {"n_positions", 77}};
  const Json bloom{{"model_type", "bloom"}, {"hidden_size", kHidden}, {"n_layer", 1},
                   {"n_head", 2},           {"vocab_size", kRows},    {"seq_length", 99}};
  const Json neox{{"model_type", "gpt_neox"},     {"hidden_size", kHidden},   {"intermediate_size", kFfn},
                  {"num_hidden_layers", 1},       {"num_attention_heads", 1}, {"vocab_size", kRows},
                  {"max_position_embeddings", 55}};
  const Json baichuan{{"model_type", "baichuan"}, {"hidden_size", kHidden},   {"intermediate_size", kFfn},
                      {"num_hidden_layers", 1},   {"num_attention_heads", 2}, {"vocab_size", kRows}};
  // The values, in this order: swiglu, add_bias_linear, add_qkv_bias, add_dense_bias, qk_layernorm, embed_layernorm,
  // untie.., add_position_embedding, use_rotary.., lm_norm_weight, openai_gelu.
  const std::vector<const char*> flags{"swiglu",
                                       "add_bias_linear",
                                       "add_qkv_bias",
                                       "add_dense_bias",
                                       "qk_layernorm",
                                       "embed_layernorm",
                                       "untie_embeddings_and_output_weights",
                                       "add_position_embedding",
                                       "use_rotary_position_embeddings",
                                       "lm_norm_weight",
                                       "openai_gelu"};
  const struct {
    const char* what;
    Json config;
    std::string yes;  // one sign for each flag
    const char* positions;
    int64_t length;
  } cases[] = {
      {"llama", with(llama(), {{"max_position_embeddings", 66}}), "1_____1_1__", "rope", 66},
      {"llama with biases", with(llama(), {{"attention_bias", true}, {"tie_word_embeddings", true}}), "1_11____1__", "rope",
       2048},
      {"llama with all biases", with(llama(), {{"attention_bias", true}, {"mlp_bias", true}}), "1111__1_1__", "rope", 2048},
      {"qwen2", with(llama(), {{"model_type", "qwen2"}, {"max_position_embeddings", 66}}), "1_1___1_1__", "rope", 66},
      {"qwen3", with(llama(), {{"model_type", "qwen3"}, {"head_dim", 4}, {"max_position_embeddings", 66}}), "1___1_1_1__",
       "rope", 66},
      {"gpt2", gpt2, "_111___1__1", "learned_absolute", 77},
      {"bloom", bloom, "_111_1____1", "alibi", 99},
      {"pythia", neox, "_111__1_1__", "rope", 55},
      {"baichuan 7B", with(baichuan, {{"max_position_embeddings", 44}}), "1_____1_1__", "rope", 44},
      {"baichuan 13B", with(baichuan, {{"model_max_length", 44}}), "1_____1____", "alibi", 44},
      {"baichuan2 13B", with(baichuan, {{"model_max_length", 44}, {"z_loss_weight", 0}}), "1_____1__1_", "alibi", 44},
  };
  for (const auto& c : cases) {
    const Written w(folder, c.config);
    std::string got;
    for (const char* f : flags) got += w.is(f) ? '1' : '_';
    EXPECT_EQ(got, c.yes) << c.what;
    EXPECT_EQ(text_argument(*w.file, "position_embedding_type"), c.positions) << c.what;
    EXPECT_EQ(argument(*w.file, "max_position_embeddings"), c.length) << c.what;
    EXPECT_EQ(argument(*w.file, "seq_length"), c.length) << c.what;
  }
  auto base = [&](const Json& more) { return real_argument(*Written(folder, with(llama(), more)).file, "rotary_base"); };
  EXPECT_EQ(base({{"rope_theta", 12345.5}}), 12345.5);
  EXPECT_EQ(base({{"rope_parameters", {{"rope_theta", 70000}, {"rope_type", "default"}}}}), 70000)
      << "as newer configs write it";
  EXPECT_EQ(base(Json::object()), 10000);
  auto percent = [&](const Json& more) { return real_argument(*Written(folder, with(neox, more)).file, "rotary_percent"); };
  EXPECT_EQ(percent({{"rotary_pct", 0.5}}), 0.5);
  EXPECT_EQ(percent({{"rope_parameters", {{"partial_rotary_factor", 0.5}, {"rope_theta", 10000.0}, {"rope_type", "default"}}}}),
            0.5);
  EXPECT_EQ(percent(Json::object()), 0.25);
  EXPECT_EQ(real_argument(*Written(folder, with(neox, {{"rotary_emb_base", 500}})).file, "rotary_base"), 500);
  EXPECT_EQ(real_argument(*Written(folder, gpt2).file, "norm_epsilon"), 1e-5) << "the default of LayerNorm";
  EXPECT_EQ(real_argument(*Written(folder, llama()).file, "norm_epsilon"), 1e-6) << "that of Llama";
  for (auto [dtype, fp16, bf16] :
       {std::tuple{DType::f16, true, false}, {DType::bf16, false, true}, {DType::f32, false, false}}) {
    const Written w(folder, llama(), dtype);
    EXPECT_TRUE(w.is("fp16") == fp16 && w.is("bf16") == bf16) << name(dtype);
  }
}

// --- DeepSpeed

void write_file(const std::string& path, const Values& write, const Tensors& tensors) {
  TorchSave out(path);
  out.begin_dict();
  write(out);
  out.end();
  write_counting(out, tensors);
  out.commit();
}

void shape(TorchSave& out, const char* name, std::initializer_list<int64_t> sizes) {
  out.text(name), out.begin_list();
  for (int64_t s : sizes) out.integer(s);
  out.end();
}

// Two ranks: `a` [2,3] and `b` [3] are trained (9 elements, 5 per rank with one of padding). `frozen` [5] is not
// trained, `buffer` [2] is not a parameter, `alias` is `a`.
TEST(DeepSpeed, FrozenSharedAndBuffersComeAlong) {
  TemporaryFolder folder;
  for (int64_t stage : {2, 3}) {
    const std::string at = folder / fmt::format("zero{}", stage);
    std::filesystem::create_directories(at);
    for (int rank = 0; rank < (stage == 3 ? 2 : 1); ++rank)
      write_file(
          at + (stage == 3 ? fmt::format("/zero_pp_rank_{}_mp_rank_00_model_states.pt", rank) : "/mp_rank_00_model_states.pt"),
          [&](TorchSave& out) {
            out.text("module"), out.begin_dict(), out.text("buffer"), out.tensor(DType::f32, {2}), out.end();
            out.text("buffer_names"), out.begin_list(), out.text("buffer"), out.end();
            out.text("shared_params"), out.begin_dict(), out.text("alias"), out.text("a"), out.text("lost"),
                out.text("nowhere"), out.end();
            out.text("param_shapes"), out.begin_list(), out.begin_dict(), shape(out, "a", {2, 3}), shape(out, "b", {3}),
                out.end(), out.end();
            out.text("frozen_param_shapes"), out.begin_dict(), shape(out, "frozen", {5}), out.end();
            out.text("frozen_param_fragments"), out.begin_dict(), out.text("frozen"),
                out.tensor(DType::f32, {stage == 3 ? 3 : 5}), out.end();
            out.text("global_steps"), out.integer(6), out.text("global_samples"), out.integer(48), out.text("skipped_steps"),
                out.integer(2);
          },
          {{"buffer", {2}}, {"frozen", {stage == 3 ? 3 : 5}}});
    for (int rank = 0; rank < 2; ++rank)
      write_file(at + fmt::format("/zero_pp_rank_{}_mp_rank_00_optim_states.pt", rank),
                 [&](TorchSave& out) {
                   out.text("optimizer_state_dict"), out.begin_dict();
                   out.text("zero_stage"), out.integer(stage);
                   out.text("partition_count"), out.begin_list(), out.integer(2), out.end();
                   out.text(stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups"), out.begin_list(),
                       out.tensor(DType::f32, {5}), out.end();
                   out.text(stage == 3 ? "optimizer_state_dict" : "base_optimizer_state"), out.begin_dict(), out.text("state"),
                       out.begin_dict(), out.end(), out.end();
                   out.end();
                 },
                 {{"flat", {5}}});
    const Weights w = read_deepspeed(at, Json(), "");
    auto got = [&](const char* name) {
      return w.tensors.contains(name) ? values_of(*w.tensors.at(name)) : std::vector<float>{};
    };
    using Floats = std::vector<float>;
    EXPECT_EQ(w.tensors.size(), 5u);
    if (stage == 2) {
      EXPECT_EQ(got("a"), (Floats{0, 1, 2, 3, 4, 0})) << "the second rank goes on where the first ends";
      EXPECT_EQ(got("b"), (Floats{1, 2, 3}));
      EXPECT_EQ(got("frozen"), (Floats{1000, 1001, 1002, 1003, 1004}));
    } else {
      EXPECT_EQ(got("a"), (Floats{0, 1, 2, 0, 1, 2})) << "each parameter is cut over the ranks";
      EXPECT_EQ(got("b"), (Floats{3, 4, 3})) << "ceil(3 / 2) of the first rank, the rest of the second";
      EXPECT_EQ(got("frozen"), (Floats{1000, 1001, 1002, 1000, 1001})) << "and so are those that are frozen";
    }
    EXPECT_EQ(got("buffer"), (Floats{0, 1}));
    EXPECT_EQ(got("alias"), got("a"));
    EXPECT_TRUE(w.position.step == 6 && w.position.optimizer_steps == 4 && w.position.global_batch == 8);
  }
}

// --- MindFormers

TEST(MindFormers, WhatTrainingPutsNextToWeightsIsNoWeight) {
  TemporaryFolder folder;
  const std::vector<float> zeros(2 * kFfn * kHidden), step{41};
  const std::vector<int32_t> whole{42};
  std::vector<TensorBytes> tensors;
  const Json config = llama();
  auto add = [&](const std::string& name, const Shape& s) {
    tensors.push_back({name, DType::f32, s, std::as_bytes(std::span(zeros)).first(static_cast<size_t>(s.count() * 4))});
  };
  const std::string layer = "model.layers.0.";
  for (const auto& [name, s] : Tensors{{"model.tok_embeddings.embedding_weight", {kRows, kHidden}},
                                       {"model.norm_out.weight", {kHidden}},
                                       {"lm_head.weight", {kRows, kHidden}},
                                       {layer + "attention_norm.weight", {kHidden}},
                                       {layer + "ffn_norm.weight", {kHidden}},
                                       {layer + "attention.wq.weight", {8, kHidden}},
                                       {layer + "attention.wk.weight", {4, kHidden}},
                                       {layer + "attention.wv.weight", {4, kHidden}},
                                       {layer + "attention.wo.weight", {kHidden, 8}},
                                       {layer + "feed_forward.w1.weight", {kFfn, kHidden}},
                                       {layer + "feed_forward.w2.weight", {kHidden, kFfn}},
                                       {layer + "feed_forward.w3.weight", {kFfn, kHidden}}})
    add(name, s);
  const size_t weights = tensors.size();
  for (const char* prefix : {"adam_m.", "adam_v.", "adam.", "moments.", "accu_grads.", "exp_avg.", "exp_avg_sq.", "optimizer."})
    add(prefix + layer + "attention.wq.weight", {8, kHidden});
  add("learning_rate", {1}), add("loss_scale", {}), add("beta1_power", {});
  tensors.push_back({"global_step", DType::i32, {1}, std::as_bytes(std::span(whole))});
  save_safetensors(folder / "a.safetensors", tensors);
  Weights w = read_mindformers(folder / "a.safetensors", config, "config.json", false, StateKind::weights);
  EXPECT_EQ(w.tensors.size(), weights);
  EXPECT_TRUE(w.position.step == 42 && w.position.optimizer_steps == 42);
  w = read_mindformers(folder / "a.safetensors", config, "config.json", false, StateKind::second_moment);
  EXPECT_EQ(w.tensors.size(), 1u);
  EXPECT_TRUE(w.tensors.contains("model.layers.0.self_attn.q_proj.weight"));
  tensors.back() = {"global_step", DType::f32, {1}, std::as_bytes(std::span(step))};
  save_safetensors(folder / "b.safetensors", tensors);
  EXPECT_EQ(read_mindformers(folder / "b.safetensors", config, "config.json", false, StateKind::weights).position.step, 41)
      << "of any type";
}

// --- which layout a folder is

TEST(Recognise, ByNamesInTheirOrder) {
  namespace fs = std::filesystem;
  const struct {
    const char* what;
    std::vector<const char*> files;
    std::optional<WeightLayout> want;
  } cases[] = {
      {"nothing", {}, {}},
      {"texts", {"a.txt", "config.json"}, {}},
      {"a checkpoint", {"manifest.json", "state-00000.safetensors"}, WeightLayout::ravine},
      {"checkpoints", {"step_000001/manifest.json"}, WeightLayout::ravine},
      {"a run with its model",
       {"checkpoints/step_000001/manifest.json", "model/model.safetensors", "latest"},
       WeightLayout::ravine},
      {"a copy of a model in a folder of that name", {"step_000001/notes.txt"}, {}},
      {"Megatron's",
       {"latest_checkpointed_iteration.txt", "iter_0000001/mp_rank_00/model_optim_rng.pt"},
       WeightLayout::megatron},
      {"its ranks", {"mp_rank_00/model_optim_rng.pt"}, WeightLayout::megatron},
      {"MindFormers' ranks", {"rank_0/a.safetensors", "rank_1/a.safetensors"}, WeightLayout::mindformers},
      {"MindFormers' map", {"param_name_map.json", "model-00001-of-00001.safetensors"}, WeightLayout::mindformers},
      {"MindSpore's file", {"a.ckpt"}, WeightLayout::mindformers},
      {"a model of pickles", {"config.json", "pytorch_model.bin"}, WeightLayout::hf},
      {"shards of pickles", {"pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"}, WeightLayout::hf},
      {"an adapter", {"adapter_config.json", "adapter_model.bin"}, {}},
  };
  for (const auto& c : cases) {
    TemporaryFolder f;
    for (const char* name : c.files) {
      fs::create_directories(fs::path(f / name).parent_path());
      spill(f / name, std::string(name) == "manifest.json" ? R"({"format": "ravine-checkpoint"})" : "");
    }
    const auto found = recognise(f.path());
    EXPECT_EQ(found ? std::optional(found->layout) : std::nullopt, c.want) << c.what;
  }
  EXPECT_FALSE(recognise("/no/such/folder"));
  EXPECT_EQ(recognise("/no/such/file.ckpt")->layout, WeightLayout::mindformers) << "by its name";
  // Files of safetensors by the names inside.
  const std::vector<float> one(1);
  for (auto [name, metadata, want] : {std::tuple{"model.layers.0.attention.wq.weight", "", WeightLayout::mindformers},
                                      {"decoder.layers.0.self_attention.linear_q.weight", "", WeightLayout::mindformers},
                                      {"model.layers.0.self_attn.q_proj.weight", "", WeightLayout::hf},
                                      {"transformer.h.0.attn.c_attn.weight", "pt", WeightLayout::hf},
                                      {"anything", "ms", WeightLayout::mindformers}}) {
    TemporaryFolder f;
    SafetensorsOptions options;
    if (*metadata) options.metadata = {{"format", metadata}};
    save_safetensors(f / "model.safetensors", {{name, DType::f32, {1}, std::as_bytes(std::span(one))}}, options);
    ASSERT_TRUE(recognise(f.path())) << name;
    EXPECT_EQ(recognise(f.path())->layout, want) << name << " " << metadata;
  }
}

// --- vocabularies, adapters

TEST(ResizeVocabulary, KeepsTheSettingsOfTheVocabulary) {
  auto resized = [](const Json& config, int64_t rows) {
    Weights w;
    w.config = config;
    Json whole{{"hidden_size", kHidden},
               {"intermediate_size", kFfn},
               {"num_hidden_layers", 1},
               {"num_attention_heads", 2},
               {"max_position_embeddings", 8}};
    whole.update(config);
    if (whole.value("z_loss_weight", 0.0) != 0) whole["z_loss_weight"] = 0;
    resize_vocabulary(w, make_model(whole, "test")->decoder()->implied, rows);
    return w.config;
  };
  EXPECT_EQ(resized({{"model_type", "baichuan"}, {"vocab_size", 125696}}, 125700),
            (Json{{"model_type", "baichuan"}, {"vocab_size", 125700}, {"z_loss_weight", 0}}))
      << "Baichuan2 is known by its vocabulary";
  EXPECT_EQ(resized({{"model_type", "baichuan"}, {"vocab_size", 125696}, {"z_loss_weight", 0.5}}, 9),
            (Json{{"model_type", "baichuan"}, {"vocab_size", 9}, {"z_loss_weight", 0.5}}));
  EXPECT_EQ(resized({{"model_type", "baichuan"}, {"vocab_size", 64000}}, 9),
            (Json{{"model_type", "baichuan"}, {"vocab_size", 9}}));
  EXPECT_EQ(resized({{"model_type", "llama"}, {"vocab_size", 125696}}, 9), (Json{{"model_type", "llama"}, {"vocab_size", 9}}));
}

TEST(Adapters, AreWhatIsNoWholeModel) {
  TemporaryFolder f;
  EXPECT_FALSE(find_adapter(f.path()));
  spill(f / "adapter_model.bin", "x");
  ASSERT_TRUE(find_adapter(f.path()));
  EXPECT_EQ(find_adapter(f.path())->weights_file, f / "adapter_model.bin");
  EXPECT_EQ(find_adapter(f.path())->config_file, "");
  spill(f / "adapter_model.safetensors", "x");
  EXPECT_EQ(find_adapter(f.path())->weights_file, f / "adapter_model.safetensors") << "which PEFT prefers";
  spill(f / "adapter_config.json", R"({"r": 3})");
  EXPECT_EQ(find_adapter(f.path())->config_file, f / "adapter_config.json");
  EXPECT_EQ(adapter_config(*find_adapter(f.path())), (Json{{"r", 3}}));
  for (const char* model : {"model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json",
                            "pytorch_model.bin", "pytorch_model-00001-of-00002.bin"}) {
    spill(f / model, "x");
    EXPECT_FALSE(find_adapter(f.path())) << model << ": a model with an adapter beside it";
    std::filesystem::remove(f / model);
  }
  std::filesystem::remove(f / "adapter_model.bin"), std::filesystem::remove(f / "adapter_model.safetensors");
  ASSERT_TRUE(find_adapter(f.path()));
  EXPECT_EQ(find_adapter(f.path())->weights_file, "");
}

// --- ranks that do not belong together, and where a run stands

// One rank's file: `sizes` of its arguments, `chunks` virtual stages with one tensor each.
struct RankFile {
  int64_t iteration = 4, tensor = 2, chunks = 1;
  double version = 3.0;
  Values more;
};
void write_rank(const std::string& file, const RankFile& r) {
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  TorchSave out(file);
  out.begin_dict();
  out.text("args"), out.begin_namespace();
  out.text("tensor_model_parallel_size"), out.integer(r.tensor);
  if (r.more) r.more(out);
  out.end();
  out.text("checkpoint_version"), out.real(r.version);
  out.text("iteration"), out.integer(r.iteration);
  Tensors tensors;
  for (int64_t c = 0; c < r.chunks; ++c) {
    tensors.push_back({"embedding.word_embeddings.weight", {kRows, kHidden}});
    out.text(r.chunks == 1 ? "model" : fmt::format("model{}", c)), out.begin_ordered_dict();
    out.text(tensors.back().first), out.tensor(DType::f32, tensors.back().second);
    out.end();
  }
  out.end();
  write_counting(out, tensors);
  out.commit();
}

TEST(MegatronFolders, RanksThatDoNotBelongTogetherAreRefused) {
  const struct {
    const char* what;
    RankFile second;
    const char* expected;
  } cases[] = {
      {"the same", {}, ""},
      {"another step", {.iteration = 5}, "ranks of different steps"},
      {"another number of virtual stages", {.chunks = 2}, "ranks of different layouts"},
      {"another age", {.version = 2.0}, "old checkpoint"},
      {"another number of ranks", {.tensor = 4}, "its arguments say tensor_model_parallel_size = 4, the folder holds 2"},
      {"experts on several ranks",
       {.more = integer("expert_model_parallel_size", 2)},
       "expert_model_parallel_size = 2, the folder holds 1"},
  };
  for (const auto& c : cases) {
    TemporaryFolder folder;
    write_rank(folder / "mp_rank_00/model_optim_rng.pt", {});
    write_rank(folder / "mp_rank_01/model_optim_rng.pt", c.second);
    if (*c.expected)
      EXPECT_NE(message_of<UserError>([&] { open_megatron(folder.path(), StateKind::weights); }).find(c.expected),
                std::string::npos)
          << c.what;
    else
      EXPECT_EQ(open_megatron(folder.path(), StateKind::weights).tensor, 2) << c.what;
  }
  // If a rank has files under both names, the file with the optimizer's state is read.
  TemporaryFolder folder;
  write_rank(folder / "mp_rank_00/model_optim_rng.pt", {.iteration = 8, .tensor = 1});
  write_rank(folder / "mp_rank_00/model_rng.pt", {.iteration = 2, .tensor = 1});
  const MegatronFolder f = open_megatron(folder.path(), StateKind::weights);
  const Pickle& p = f.ranks[0].file->pickle();
  EXPECT_EQ(p.integer(*p.find(p.root(), "iteration")), 8);
}

TEST(MegatronArguments, NameTheStepOfTheRun) {
  TemporaryFolder folder;
  const Tensors tensors{{"embedding.word_embeddings.weight", {kRows, kHidden}},
                        {"decoder.layers.0.input_layernorm.weight", {kHidden}}};
  auto position = [&](const Values& v) { return megatron(folder, v, tensors).position; };
  const Values lengths = both(integer("seq_length", 16), integer("max_position_embeddings", 64)),
               batches = both(integer("micro_batch_size", 2), integer("global_batch_size", 12));
  RunPosition at = position(both(both(lengths, batches), integer("consumed_train_samples", 36)));
  EXPECT_EQ(at.tokens, 36 * 16) << "samples have seq_length tokens, whatever the model could take";
  EXPECT_EQ(at.global_batch, 12);
  at = position({});
  EXPECT_TRUE(at.tokens == 0 && at.global_batch == 0 && at.optimizer_steps == 0);
}

TEST(MegatronVocabulary, ATrueSizeBeyondTheTableIsNotBelieved) {
  TemporaryFolder folder;
  const Tensors tensors{{"embedding.word_embeddings.weight", {kRows - 2, kHidden}},
                        {"decoder.layers.0.input_layernorm.weight", {kHidden}}};
  EXPECT_EQ(megatron(folder, {}, tensors).config.value("vocab_size", 0), kRows - 2) << "true_vocab_size is 5 of 3 rows";
}

// Masters of a run in 16 bits, and an optimizer whose state lies at the top.
TEST(MegatronOptimizer, MastersAndMomentsWhereverTheyLie) {
  TemporaryFolder folder;
  const Tensors tensors{{"embedding.word_embeddings.weight", {2, 3}},
                        {"decoder.layers.0.self_attention.rotary_emb.inv_freq", {2}},
                        {"decoder.final_layernorm.weight", {3}}};
  auto write = [&](bool inner, bool empty_group) {
    std::filesystem::remove_all(folder / "mg");
    std::filesystem::create_directories(folder / "mg/mp_rank_00");
    TorchSave out(folder / "mg/mp_rank_00/model_optim_rng.pt");
    Tensors all = tensors;
    out.begin_dict();
    out.text("checkpoint_version"), out.real(3.0);
    out.text("model"), out.begin_ordered_dict();
    for (const auto& [name, shape] : tensors) out.text(name), out.tensor(DType::f32, shape);
    out.end();
    out.text("optimizer"), out.begin_dict();
    if (inner) out.text("optimizer"), out.begin_dict();
    out.text("state"), out.begin_dict();
    for (int64_t i = 0; i < 2; ++i) {
      const Shape shape = tensors[i == 0 ? 0 : 2].second;
      out.integer(i), out.begin_dict();
      out.text("exp_avg"), out.tensor(DType::f32, shape), all.push_back({"m", shape});
      out.text("exp_avg_sq"), out.tensor(DType::f32, shape), all.push_back({"v", shape});
      out.end();
    }
    out.end();
    out.text("param_groups"), out.begin_list();
    if (empty_group)
      out.begin_dict(), out.text("step"), out.integer(17), out.text("params"), out.begin_list(), out.end(), out.end();
    out.begin_dict(), out.text("step"), out.integer(17), out.text("params"), out.begin_list(), out.integer(0), out.integer(1),
        out.end(), out.end();
    out.end();
    if (inner) {
      out.end();
      out.text("fp32_from_fp16_params"), out.begin_list(), out.begin_list();
      for (size_t i : {0u, 2u}) out.tensor(DType::f32, tensors[i].second), all.push_back({"master", tensors[i].second});
      out.end(), out.end();
    }
    out.end();
    out.end();
    write_counting(out, all);
    out.commit();
  };
  auto firsts = [&](StateKind kind) {
    const MegatronFolder f = open_megatron(folder / "mg", kind);
    return std::pair(values_of(*f.ranks[0].chunks[0][0].elements)[0], values_of(*f.ranks[0].chunks[0][2].elements)[0]);
  };
  using Firsts = std::pair<float, float>;
  for (bool inner : {false, true}) {
    write(inner, inner);
    EXPECT_EQ(firsts(StateKind::first_moment), (Firsts{3000, 5000})) << inner << ": frequencies have none";
    EXPECT_EQ(firsts(StateKind::second_moment), (Firsts{4000, 6000})) << inner;
    EXPECT_EQ(firsts(StateKind::masters), inner ? (Firsts{7000, 8000}) : (Firsts{0, 2000}))
        << inner << ": of a run in f32 they are the weights";
    EXPECT_EQ(optimizer_steps(*open_megatron(folder / "mg", StateKind::weights).ranks[0].file), 17)
        << "FusedAdam counts in its groups";
  }
}

// The last stage of a tied model holds a copy of the table under the name that its program reads; a single stage holds
// none.
TEST(MegatronPlan, TheLastStageOfATiedModelHasItsCopy) {
  Json config = llama();
  config["tie_word_embeddings"] = true, config["num_hidden_layers"] = 2;
  const Geometry g = geometry_of(config, "test");
  Weights w;
  w.config = config;
  for (const Param& p : g.model->params().params())
    if (!p.tied) w.add(p.name, zeros(DType::f32, p.shape));
  for (auto [names, copy] :
       {std::pair{MegatronNames::legacy, "word_embeddings_for_head.weight"}, {MegatronNames::mcore, "output_layer.weight"}})
    for (int64_t stages : {1, 2}) {
      const auto files = plan_megatron(w, g, {names, 1, stages, 1});
      ASSERT_EQ(files.size(), static_cast<size_t>(stages));
      int64_t copies = 0;
      for (const auto& t : files.back().tensors) copies += t.name == copy;
      EXPECT_EQ(copies, stages - 1) << copy;
      EXPECT_EQ(files[0].tensors[0].elements->shape(), (Shape{128, kHidden})) << "padded to 128 rows a rank";
    }
}

// --- DeepSpeed: groups, other forms, and ranks that do not belong together

struct ZeroFolder {
  int64_t stage = 2, files = 2, ranks = 2;
  int64_t second_stage = 0, second_step = 0, one_more = 0;
  bool elastic = false, config = false;
  void write(const std::string& at) const {
    std::filesystem::create_directories(at);
    const int64_t models = stage == 3 ? files : 1;
    for (int64_t rank = 0; rank < models; ++rank)
      write_file(
          at + (stage == 3 ? fmt::format("/zero_pp_rank_{}_mp_rank_00_model_states.pt", rank) : "/mp_rank_00_model_states.pt"),
          [&](TorchSave& out) {
            out.text("module"), out.begin_dict(), out.text("buffer"), out.tensor(DType::f16, {2}), out.end();
            out.text("buffer_names"), out.begin_list(), out.text("buffer"), out.end();
            out.text("param_shapes"), out.begin_list();
            out.begin_dict(), shape(out, "a", {2, 2}), out.end();
            out.begin_dict(), shape(out, "b", {4}), out.end();
            out.end();
            out.text("global_steps"), out.integer(rank > 0 && second_step ? second_step : 6);
            out.text("global_samples"), out.integer(49);
          },
          {{"half", {1}}});
    for (int64_t rank = 0; rank < files; ++rank)
      write_file(at + fmt::format("/zero_pp_rank_{}_mp_rank_00_optim_states.pt", rank == 1 && one_more ? 2 : rank),
                 [&](TorchSave& out) {
                   out.text("optimizer_state_dict"), out.begin_dict();
                   out.text("zero_stage"), out.integer(rank > 0 && second_stage ? second_stage : stage);
                   out.text("partition_count"), out.begin_list(), out.integer(ranks), out.integer(ranks), out.end();
                   out.text(stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups"), out.begin_list(),
                       out.tensor(DType::f32, {2}), out.tensor(DType::f32, {2}), out.end();
                   out.text(stage == 3 ? "optimizer_state_dict" : "base_optimizer_state");
                   auto state = [&] {
                     out.begin_dict(), out.text("exp_avg"), out.tensor(DType::f32, {2}), out.text("exp_avg_sq"),
                         out.tensor(DType::f32, {2}), out.text("step"), out.integer(5), out.end();
                   };
                   if (elastic)
                     out.begin_list(), state(), state(), out.end();
                   else
                     out.begin_dict(), out.text("state"), out.begin_dict(), out.integer(0), state(), out.integer(1), state(),
                         out.end(), out.end();
                   out.end();
                 },
                 {{"0", {2}}, {"1", {2}}, {"m0", {2}}, {"v0", {2}}, {"m1", {2}}, {"v1", {2}}});
  }
};

TEST(DeepSpeed, GroupsAndOtherForms) {
  using Floats = std::vector<float>;
  for (bool elastic : {false, true}) {
    TemporaryFolder folder;
    ZeroFolder{.elastic = elastic}.write(folder / "run/global_step6");
    spill(folder / "run/latest", "global_step6 \n");
    spill(folder / "run/config.json", llama().dump());
    for (const char* named : {"run", "run/global_step6"}) {
      const Weights w = read_deepspeed(folder / named, Json(), "");
      EXPECT_EQ(values_of(*w.tensors.at("a")), (Floats{0, 1, 0, 1})) << "the first group of both ranks";
      EXPECT_EQ(values_of(*w.tensors.at("b")), (Floats{1000, 1001, 1000, 1001})) << "the second group";
      EXPECT_EQ(w.tensors.at("buffer")->dtype(), DType::f32) << "buffers are stored in the type of the run";
      EXPECT_EQ(w.config, llama()) << named << ": beside the folder of the step";
      EXPECT_EQ(w.folder, folder / "run") << named;
      EXPECT_TRUE(w.position.step == 6 && w.position.optimizer_steps == 5);
      EXPECT_EQ(w.position.global_batch, 0) << "49 samples are not 6 equal batches";
    }
    const Weights m = read_deepspeed(folder / "run", Json(), "", StateKind::first_moment),
                  v = read_deepspeed(folder / "run", Json(), "", StateKind::second_moment);
    EXPECT_EQ(values_of(*m.tensors.at("a")), (Floats{2000, 2001, 2000, 2001}));
    EXPECT_EQ(values_of(*m.tensors.at("b")), (Floats{4000, 4001, 4000, 4001}));
    EXPECT_EQ(values_of(*v.tensors.at("b")), (Floats{5000, 5001, 5000, 5001}));
    EXPECT_EQ(m.tensors.size(), 2u);
  }
}

TEST(DeepSpeed, RanksThatDoNotBelongTogetherAreRefused) {
  const struct {
    const char* what;
    ZeroFolder z;
    const char* expected;
  } cases[] = {
      {"a rank is missing", {.ranks = 3}, "says 3 ranks, the folder holds 2 optimizer files"},
      {"a number is missing", {.one_more = 1}, "rank 1 of 2 has no optimizer file"},
      {"two runs", {.second_stage = 1}, "ranks of two runs"},
      {"two steps", {.stage = 3, .second_step = 7}, "ranks of different steps"},
  };
  for (const auto& c : cases) {
    TemporaryFolder folder;
    c.z.write(folder.path());
    EXPECT_NE(message_of<UserError>([&] { read_deepspeed(folder.path(), llama(), "c"); }).find(c.expected), std::string::npos)
        << c.what;
  }
  TemporaryFolder folder;
  ZeroFolder{.stage = 3}.write(folder.path());
  std::filesystem::remove(folder / "zero_pp_rank_1_mp_rank_00_model_states.pt");
  EXPECT_NE(message_of<UserError>([&] {
              read_deepspeed(folder.path(), llama(), "c");
            }).find("2 ranks have optimizer files, 1 have model files"),
            std::string::npos);
}

// --- what lies beside the weights

// Tokenizer and generation_config.json in a folder of the layout are copied, for any source of the model's config.
TEST(CompanionFiles, TokenizersComeAlongFromEveryLayout) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "hf");
  Json config = llama();
  config["num_hidden_layers"] = 2;
  spill(folder / "hf/config.json", config.dump());
  spill(folder / "config.json", config.dump());
  const auto model = make_model(config, "test");
  const std::vector<std::byte> zeros(1 << 16);
  std::vector<TensorBytes> tensors;
  for (const FileTensor& t : model->files().tensors)
    tensors.push_back({t.name, DType::f32, t.shape, std::span(zeros).first(static_cast<size_t>(t.shape.count() * 4))});
  save_safetensors(folder / "hf/model.safetensors", tensors);
  spill(folder / "hf/vocab.txt", "[PAD]\n[UNK]\n");
  spill(folder / "hf/generation_config.json", R"({"top_k": 7})");
  auto convert = [&](const std::string& from, const std::string& to, ConvertTarget layout, const std::string& with = "") {
    convert_weights({.input = from,
                     .output = to,
                     .to = layout,
                     .model_config = with,
                     .pipeline = layout == ConvertTarget::megatron_mcore ? 2 : 1},
                    [](int64_t, int64_t) {});
    EXPECT_EQ(slurp(to + "/vocab.txt"), slurp(folder / "hf/vocab.txt")) << from << " to " << to;
    EXPECT_EQ(slurp(to + "/generation_config.json"), R"({"top_k": 7})") << from << " to " << to;
  };
  for (const auto& [layout, word] : names_of(ConvertTarget{})) {
    if (layout == ConvertTarget::peft) continue;       // of checkpoints of LoRA only
    if (layout == ConvertTarget::deepspeed) continue;  // of Ravine's checkpoints only
    const std::string made = folder / (std::string("as-") + word);
    convert(folder / "hf", made, layout);
    convert(made, made + "-back", ConvertTarget::hf);
    convert(made, made + "-given", ConvertTarget::hf, folder / "config.json");
  }
}

// --- rules of the conversion itself

std::string hf_model(const TemporaryFolder& folder, const std::string& name, const Json& config,
                     const std::function<void(std::vector<TensorBytes>&)>& change = {}) {
  static const std::vector<std::byte> zeros(1 << 16);
  std::filesystem::create_directories(folder / name);
  spill(folder / (name + "/config.json"), config.dump());
  const auto model = make_model(config, "test");
  std::vector<TensorBytes> tensors;
  for (const FileTensor& t : model->files().tensors)
    tensors.push_back({t.name, DType::f32, t.shape, std::span(zeros).first(static_cast<size_t>(t.shape.count() * 4))});
  if (change) change(tensors);
  save_safetensors(folder / (name + "/model.safetensors"), tensors);
  return folder / name;
}

TEST(Convert, WhatIsNoWeightIsLeftOutAndTypesAreThoseRequested) {
  TemporaryFolder folder;
  const std::vector<std::byte> zeros(4096);
  Json tied = llama();
  tied["tie_word_embeddings"] = true, tied["dtype"] = "float32";
  const auto quiet = [](int64_t, int64_t) {};
  const std::string in = hf_model(folder, "a", tied, [&](auto& t) {
    t.push_back({"lm_head.weight", DType::f32, {kRows, kHidden}, std::span(zeros).first(kRows * kHidden * 4)});
    t.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::f32, {2}, std::span(zeros).first(8)});
    t[0].dtype = DType::bf16, t[0].bytes = t[0].bytes.first(t[0].bytes.size() / 2);
  });
  std::filesystem::create_directories(folder / "full"), spill(folder / "full/x", "x");
  ConvertReport r = convert_weights({.input = in, .output = folder / "full", .to = ConvertTarget::hf, .dry_run = true}, quiet);
  EXPECT_EQ(r.rows.size(), make_model(tied, "t")->files().tensors.size())
      << "no copy of the table, no frequencies; and a dry run needs no empty folder";
  EXPECT_TRUE(r.notes.empty()) << r.notes[0];
  // Weights of two types are refused for Megatron, unless --dtype selects one.
  EXPECT_NE(message_of<UserError>([&] {
              convert_weights({.input = in, .output = folder / "m", .to = ConvertTarget::megatron_mcore}, quiet);
            }).find("weights of several types"),
            std::string::npos);
  r = convert_weights({.input = in, .output = folder / "m", .to = ConvertTarget::megatron_mcore, .dtype = DType::f16}, quiet);
  for (const ConvertRow& row : r.rows) EXPECT_EQ(row.dtype, "f16") << row.name;
  r = convert_weights({.input = in, .output = folder / "half", .to = ConvertTarget::hf, .dtype = DType::bf16}, quiet);
  const Json saved_config = Json::parse(slurp(folder / "half/config.json"));
  EXPECT_EQ(saved_config.value("dtype", ""), "bfloat16");
  EXPECT_FALSE(saved_config.contains("torch_dtype")) << "the older name only where it was";
  // A family that is not known keeps its names, and whole numbers stay whole.
  std::filesystem::create_directories(folder / "other");
  spill(folder / "other/config.json", R"({"model_type": "no_such_family"})");
  save_safetensors(folder / "other/model.safetensors",
                   {{"x", DType::f32, {2}, std::span(zeros).first(8)}, {"n", DType::i64, {2}, std::span(zeros).first(16)}});
  r = convert_weights({.input = folder / "other", .output = folder / "other2", .to = ConvertTarget::hf, .dtype = DType::f16},
                      quiet);
  std::map<std::string, std::string> types;
  for (const ConvertRow& row : r.rows) types[row.name] = row.dtype;
  EXPECT_EQ(types, (std::map<std::string, std::string>{{"n", "i64"}, {"x", "f16"}}));
  EXPECT_TRUE(r.notes.empty()) << r.notes[0];
  // Virtual stages are told apart where they lie in one file.
  Json four = llama();
  four["num_hidden_layers"] = 4;
  r = convert_weights({.input = hf_model(folder, "four", four),
                       .output = "",
                       .to = ConvertTarget::megatron_mcore,
                       .pipeline = 2,
                       .virtual_stages = 2,
                       .dry_run = true},
                      quiet);
  std::set<std::string> rows;
  for (const ConvertRow& row : r.rows)
    EXPECT_TRUE(rows.insert(row.file + " " + row.name).second) << row.file << " " << row.name;
  EXPECT_TRUE(rows.contains("release/mp_rank_00_001/model_optim_rng.pt model1: output_layer.weight"));
}

TEST(ResizeVocabulary, NewRowsAreTheMeanAndTheirMomentsZero) {
  auto table = [](bool moments, int64_t rows) {
    Weights w;
    w.config = llama();
    const std::vector<float> v{1, 2, 3, 6};
    const auto bytes = std::as_bytes(std::span(v));
    w.add("lm_head.weight", in_memory(DType::f32, {2, 2}, {bytes.begin(), bytes.end()}));
    resize_vocabulary(w, Json::object(), rows, moments);
    return values_of(*w.tensors.at("lm_head.weight"));
  };
  EXPECT_EQ(table(false, 3), (std::vector<float>{1, 2, 3, 6, 2, 4}));
  EXPECT_EQ(table(true, 3), (std::vector<float>{1, 2, 3, 6, 0, 0}));
  EXPECT_EQ(table(true, 1), (std::vector<float>{1, 2}));
}

// --- MindFormers: files that do not belong together

TEST(MindFormers, FilesThatDoNotBelongTogetherAreRefused) {
  TemporaryFolder folder;
  const std::vector<std::byte> zeros(4096);
  auto save = [&](const std::string& at, const std::string& name, int64_t step = 0, bool with_step = false) {
    std::filesystem::create_directories(std::filesystem::path(at).parent_path());
    std::vector<TensorBytes> t{{name, DType::f32, {kHidden}, std::span(zeros).first(kHidden * 4)}};
    std::vector<int64_t> number{step};
    if (with_step) t.push_back({"global_step", DType::i64, {1}, std::as_bytes(std::span(number))});
    save_safetensors(at, t);
  };
  auto expect_error = [&](const std::string& at, const char* text) {
    EXPECT_NE(message_of<UserError>([&] { read_mindformers(at, llama(), "c", false, StateKind::weights); }).find(text),
              std::string::npos)
        << text;
  };
  save(folder / "a/rank_0/x.safetensors", "model.norm_out.weight"),
      save(folder / "a/rank_2/x.safetensors", "model.norm_out.weight");
  expect_error(folder / "a", "rank 1 has no file");
  save(folder / "b/x_rank_0-1.safetensors", "model.norm_out.weight"),
      save(folder / "b/y_rank_0-2.safetensors", "model.norm_out.weight");
  expect_error(folder / "b", "belongs to rank 0 too");
  save(folder / "c/model-00001.safetensors", "model.norm_out.weight"),
      save(folder / "c/model-00002.safetensors", "model.norm_out.weight");
  expect_error(folder / "c", "tensor is stored twice");
  save(folder / "d/model-00001.safetensors", "model.norm_out.weight");
  spill(folder / "d/param_name_map.json",
        R"({"model.norm_out.weight": "model-00001.safetensors", "lm_head.weight": "model-00002.safetensors"})");
  expect_error(folder / "d", "one of the files must hold it");
  save(folder / "e/x_rank_0-1.safetensors", "model.norm_out.weight"),
      save(folder / "e/model.safetensors", "model.norm_out.weight");
  expect_error(folder / "e", "two layouts in one folder");
  save(folder / "f.safetensors", "model.norm_out.weight", -3, true);
  EXPECT_EQ(read_mindformers(folder / "f.safetensors", llama(), "c", false, StateKind::weights).position.step, 0)
      << "no step is negative";
}

// --- Ravine's checkpoints: the parts of a run that are kept, and the search for its model and tokenizer

TEST(RavineRun, KeepsItsPositionAndItsModel) {
  TemporaryFolder folder;
  const auto quiet = [](int64_t, int64_t) {};
  convert_weights({.input = hf_model(folder, "hf", llama()), .output = folder / "run", .to = ConvertTarget::ravine}, quiet);
  ASSERT_TRUE(read_mark(folder / "run")) << "training goes on in it";
  EXPECT_EQ(read_mark(folder / "run")->kind, kRunFolder);
  const std::string step = folder / "run/checkpoints/step_000000";
  auto scalars = [&](const Json& more) {
    Manifest m = parse_manifest(slurp(step + "/manifest.json"), "m");
    m.scalars.update(more);
    spill(step + "/manifest.json", write_manifest(m));
  };
  Json trained = llama();
  trained["rope_theta"] = 777.0;
  scalars({{"tokens", 123}, {"global_batch", 7}, {"optimizer_steps", 3}, {"data", {{"any", {1, 2}}}}});
  convert_weights({.input = folder / "run", .output = folder / "again", .to = ConvertTarget::ravine, .optimizer = true}, quiet);
  const Json got = parse_manifest(slurp(folder / "again/checkpoints/step_000000/manifest.json"), "m").scalars;
  EXPECT_TRUE(got["tokens"] == 123 && got["global_batch"] == 7 && got["optimizer_steps"] == 3 &&
              got["data"] == (Json{{"any", {1, 2}}}) && got["optimizer"] == "adamw")
      << got;
  auto theta = [&](const char* output) {
    convert_weights({.input = folder / "run", .output = folder / output, .to = ConvertTarget::hf}, quiet);
    return Json::parse(slurp(folder / (std::string(output) + "/config.json"))).value("rope_theta", 0.0);
  };
  // Order of the configs: the trained one, the config in the run's folder, its final model's, the config named by its
  // options.
  auto config = [&](const std::string& at, double base) {
    Json c = llama();
    c["rope_theta"] = base;
    std::filesystem::create_directories(folder / at);
    spill(folder / (at + "/config.json"), c.dump());
  };
  config("run", 2), config("run/model", 3), config("path", 4), config("shape", 5);
  auto options = [&](const std::string& model) { spill(folder / "run/config.yaml", "model: {" + model + "}\n"); };
  options("path: " + (folder / "path"));
  scalars({{"model", trained}});
  EXPECT_EQ(theta("a"), 777);
  scalars({{"model", nullptr}});
  EXPECT_EQ(theta("b"), 2);
  std::filesystem::remove(folder / "run/config.json");
  EXPECT_EQ(theta("c"), 3);
  std::filesystem::remove(folder / "run/model/config.json");
  EXPECT_EQ(theta("d"), 4) << "the model that it went on from";
  options("config: " + (folder / "shape/config.json"));
  EXPECT_EQ(theta("e"), 5);
  // Order of the tokenizers: the run's, its final model's, the tokenizer named by its options, the starting model's.
  auto vocabulary = [&](const char* output) {
    convert_weights({.input = folder / "run", .output = folder / output, .to = ConvertTarget::hf}, quiet);
    return slurp(folder / (std::string(output) + "/vocab.txt"));
  };
  for (const char* at : {"run", "run/model", "path", "tokens"})
    std::filesystem::create_directories(folder / at), spill(folder / (std::string(at) + "/vocab.txt"), at);
  options("path: " + (folder / "path") + ", tokenizer: " + (folder / "tokens"));
  EXPECT_EQ(vocabulary("f"), "run");
  std::filesystem::remove(folder / "run/vocab.txt");
  EXPECT_EQ(vocabulary("g"), "run/model");
  std::filesystem::remove(folder / "run/model/vocab.txt");
  EXPECT_EQ(vocabulary("h"), "tokens");
  options("path: " + (folder / "path"));
  EXPECT_EQ(vocabulary("i"), "path");
  // A checkpoint that is named is verified: a damaged one is refused.
  for (const auto& file : std::filesystem::directory_iterator(step))
    if (file.path().extension() == ".safetensors") {
      std::string bytes = slurp(file.path().string());
      bytes.back() = static_cast<char>(bytes.back() ^ 1);
      spill(file.path().string(), bytes);
    }
  EXPECT_THROW(convert_weights({.input = step, .output = folder / "z", .to = ConvertTarget::hf}, quiet), Error);
}

}  // namespace test_convert_sources
}  // namespace ravine

// Helpers for tests of model families: a tiny instance of each, and one training step of it.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "device/arena.h"
#include "model/decoder.h"
#include "parallel/flat_store.h"
#include "parallel/initialise.h"
#include "parallel/stash.h"

namespace ravine {

// Every switch of a decoder occurs in one of these models.
inline std::map<std::string, Json> tiny_families() {
  Json llama{{"hidden_size", 12},
             {"intermediate_size", 20},
             {"num_hidden_layers", 2},
             {"num_attention_heads", 3},
             {"vocab_size", 19},
             {"rms_norm_eps", 1e-5},
             {"initializer_range", 0.3},
             {"hidden_act", "silu"},
             {"pad_token_id", nullptr},
             {"max_position_embeddings", 32},
             {"head_dim", 4},
             {"tie_word_embeddings", false}};
  auto with = [](Json j, const Json& more) {
    j.update(more);
    return j;
  };
  Json baichuan = llama, alibi = llama;
  for (Json* j : {&baichuan, &alibi}) j->erase("head_dim"), (*j)["model_type"] = "baichuan";
  alibi.erase("max_position_embeddings");
  alibi["model_max_length"] = 32;
  Json bloom{{"model_type", "bloom"},    {"n_embed", 12},    {"n_layer", 2},
             {"num_attention_heads", 3}, {"vocab_size", 19}, {"initializer_range", 0.3}};
  Json gpt2{{"model_type", "gpt2"},    {"n_embd", 12}, {"n_layer", 2}, {"n_head", 3}, {"n_positions", 32}, {"vocab_size", 19},
            {"initializer_range", 0.3}};
  Json neox{{"model_type", "gpt_neox"}, {"hidden_size", 12},        {"intermediate_size", 20},
            {"num_hidden_layers", 2},   {"num_attention_heads", 2}, {"vocab_size", 19},
            {"initializer_range", 0.3}, {"rotary_pct", 0.7},        {"max_position_embeddings", 32}};
  const Json experts{{"first_k_dense_replace", 1}, {"n_routed_experts", 6}, {"n_group", 3}, {"topk_group", 2},
                     {"moe_intermediate_size", 8}, {"n_shared_experts", 2}};
  // All layers dense; yarn with a factor on scores; values with another width than keys.
  Json latent{
      {"num_attention_heads", 3}, {"kv_lora_rank", 6}, {"qk_nope_head_dim", 4}, {"qk_rope_head_dim", 6}, {"v_head_dim", 5}};
  latent["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 5}, {"mscale", 1.0}, {"mscale_all_dim", 0.6}};
  latent["first_k_dense_replace"] = 2;
  Json deepseek = with(llama, latent);
  deepseek.erase("head_dim");
  return {
      {"deepseek_v2", with(deepseek, {{"model_type", "deepseek_v2"}, {"q_lora_rank", nullptr}, {"mlp_bias", true}})},
      {"deepseek_v3", with(deepseek, {{"model_type", "deepseek_v3"}, {"q_lora_rank", 7}, {"attention_bias", true}})},
      {"deepseek_v2-experts", with(with(deepseek, experts), {{"model_type", "deepseek_v2"},
                                                             {"q_lora_rank", 7},
                                                             {"num_experts_per_tok", 2},
                                                             {"topk_method", "group_limited_greedy"}})},
      {"deepseek_v3-experts",
       with(with(deepseek, experts), {{"model_type", "deepseek_v3"}, {"q_lora_rank", nullptr}, {"num_experts_per_tok", 3}})},
      {"aquila", with(llama, {{"model_type", "aquila"}})},
      {"baichuan-7b", baichuan},
      {"baichuan-13b", alibi},
      {"baichuan2-7b", with(baichuan, {{"z_loss_weight", 0}})},
      {"baichuan2-13b", with(alibi, {{"z_loss_weight", 0}})},
      {"bloom", bloom},
      {"gpt2", with(gpt2, {{"scale_attn_by_inverse_layer_idx", true}})},
      {"internlm", with(llama, {{"model_type", "internlm"}, {"bias", true}})},
      {"llama", with(llama, {{"model_type", "llama"}, {"num_key_value_heads", 1}})},
      {"mistral", with(llama, {{"model_type", "mistral"}, {"num_key_value_heads", 1}, {"sliding_window", 3}})},
      {"gemma2", with(llama, {{"model_type", "gemma2"},
                              {"hidden_act", "gelu_pytorch_tanh"},
                              {"head_dim", 8},
                              {"num_key_value_heads", 1},
                              {"query_pre_attn_scalar", 5},
                              {"sliding_window", 3},
                              {"attn_logit_softcapping", 1.5},
                              {"final_logit_softcapping", 2.0},
                              {"tie_word_embeddings", true}})},
      {"mixtral", with(llama, {{"model_type", "mixtral"},
                               {"intermediate_size", 7},
                               {"num_key_value_heads", 1},
                               {"num_local_experts", 4},
                               {"num_experts_per_tok", 2}})},
      {"qwen2_moe", with(llama, {{"model_type", "qwen2_moe"},
                                 {"num_experts", 5},
                                 {"num_experts_per_tok", 3},
                                 {"moe_intermediate_size", 6},
                                 {"shared_expert_intermediate_size", 9},
                                 {"decoder_sparse_step", 2}})},
      {"qwen3_moe", with(llama, {{"model_type", "qwen3_moe"},
                                 {"head_dim", 8},
                                 {"num_key_value_heads", 1},
                                 {"num_experts", 6},
                                 {"num_experts_per_tok", 2},
                                 {"moe_intermediate_size", 5},
                                 {"norm_topk_prob", true}})},
      {"olmo2", with(llama, {{"model_type", "olmo2"}, {"num_key_value_heads", 1}})},
      // One of the two sequences of a tiny batch is too long for the short factors.
      {"phi3",
       with(llama, {{"model_type", "phi3"},
                    {"head_dim", 8},
                    {"num_key_value_heads", 1},
                    {"sliding_window", 4},
                    {"partial_rotary_factor", 0.5},
                    {"original_max_position_embeddings", 6},
                    {"rope_scaling", {{"type", "longrope"}, {"short_factor", {1.0, 1.3}}, {"long_factor", {2.5, 6.0}}}}})},
      {"pythia", neox},
      {"pythia-serial", with(neox, {{"use_parallel_residual", false}, {"tie_word_embeddings", true}})},
      {"qwen2",
       with(llama, {{"model_type", "qwen2"}, {"use_sliding_window", true}, {"sliding_window", 3}, {"max_window_layers", 1}})},
      {"qwen3",
       with(llama, {{"model_type", "qwen3"}, {"head_dim", 8}, {"num_key_value_heads", 1}, {"tie_word_embeddings", true}})}};
}

// Tokens of a batch with its documents; a row outside every segment is padding.
struct TinyBatch {
  std::vector<int32_t> ids, labels, positions;
  std::vector<int64_t> sequences;
  std::vector<Segment> segments;

  void add(const std::vector<int32_t>& tokens, int64_t padding_before = 0, int64_t padding_after = 0) {
    auto row = [&](int32_t id, int32_t label, int32_t position) {
      ids.push_back(id), labels.push_back(label), positions.push_back(position),
          sequences.push_back(static_cast<int64_t>(segments.size()));
    };
    for (int64_t i = 0; i < padding_before; ++i) row(0, -100, 0);
    const auto begin = static_cast<int64_t>(ids.size()), n = static_cast<int64_t>(tokens.size());
    for (int64_t i = 0; i < n; ++i)
      row(tokens[static_cast<size_t>(i)], i + 1 < n ? tokens[static_cast<size_t>(i + 1)] : -100, static_cast<int32_t>(i));
    segments.push_back({begin, n, begin, n});
    for (int64_t i = 0; i < padding_after; ++i) row(0, -100, 0);
  }
  Batch batch() {
    Batch b;
    auto view = [](auto& v, DType t) { return view_of(v.data(), t, {static_cast<int64_t>(v.size())}); };
    b.tokens = static_cast<int64_t>(ids.size());
    b.ids = view(ids, DType::i32), b.positions = view(positions, DType::i32), b.labels = view(labels, DType::i32);
    b.sequences = view(sequences, DType::i64), b.token_index = b.positions;
    b.segments = segments;
    b.max_position = *std::max_element(positions.begin(), positions.end()) + 1;
    b.grad_scale = 1.0 / 12;
    return b;
  }
};

inline std::vector<int32_t> tiny_tokens(uint64_t key, int64_t n) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>(philox(key, {static_cast<uint32_t>(i), 0, 0, 0})[0] % 19));
  return ids;
}

struct TinyRun {
  TinyRun(const Json& config, DType compute, Recompute recompute, double dropout = 0,
          const std::vector<std::string>& unfused = {}, const Kernels& table = ref_kernels())
      : TinyRun(make_model(config, "test"), compute, recompute, dropout, unfused, table) {}
  TinyRun(std::unique_ptr<Model> given, DType compute, Recompute recompute, double dropout = 0,
          const std::vector<std::string>& unfused = {}, const Kernels& table = ref_kernels())
      : model(std::move(given)),
        kernels(table),
        types(Types::of(compute)),
        store(model->params(), types, DeviceKind::cpu),
        stash(make_stash(recompute)) {
    for (auto& op : unfused) recipe.unfuse(op);
    initialise(model->params(), store, 7);
    for (const Param& p : model->params().params())  // so that norms and biases have an effect
      if (p.init.kind != Init::normal && !p.tied)
        for (int64_t i = 0; i < p.shape.count(); ++i) {
          double x = (p.init.kind == Init::ones ? 1.0 : 0.0) + 0.1 * std::sin(3.0 * static_cast<double>(i) + 1);
          if (types.master == DType::f64)
            store.master(p).as<double>()[i] = x;
          else
            store.master(p).as<float>()[i] = static_cast<float>(x);
        }
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena, s.store = &store, s.grads = &store, s.stash = stash.get(), s.recipe = &recipe,
    s.types = types;
    s.dropout = s.attention_dropout = dropout, s.drop = true, s.seed = 3;
    ctx = std::make_unique<Ctx>(s);
    store.refresh_copies(*ctx);
  }
  // Returns the sum of losses / 12, router losses included. store.grad has the gradients until store.end_step().
  double loss(TinyBatch& tokens) {
    Batch b = tokens.batch();
    ctx->begin_step(1);
    ctx->begin(b, true);
    model->forward(*ctx);
    ctx->backward();
    store.finish_grads(*ctx);
    const DecoderSpec* spec = model->decoder();
    const double routers = spec && spec->moe ? router_loss(spec->moe->losses, ctx->step_sums().routers(b.micro)) : 0;
    return ctx->step_sums().total(StepSum::loss).value() / 12 + routers;
  }
  double only_loss(TinyBatch& tokens) {
    double l = loss(tokens);
    store.end_step();
    return l;
  }
  std::map<std::string, std::vector<double>> gradients(TinyBatch& tokens, double* value = nullptr) {
    double l = loss(tokens);
    if (value) *value = l;
    std::map<std::string, std::vector<double>> out;
    for (const Param& p : model->params().params()) {
      if (p.tied) continue;
      TensorView g = store.grad(p);
      auto& v = out[p.name];
      for (int64_t i = 0; p.policy.trainable && i < g.count(); ++i)
        v.push_back(types.master == DType::f64 ? g.as<double>()[i] : g.as<float>()[i]);
    }
    store.end_step();
    EXPECT_EQ(arena.live(), 0);
    return out;
  }
  // Returns the logits [tokens, V]; needs no labels.
  std::vector<double> logits(TinyBatch& tokens) {
    Batch b = tokens.batch();
    b.labels = {};
    ctx->begin(b, false);
    model->forward(*ctx);
    TensorView v = ctx->outputs().at("logits").view();
    std::vector<double> out;
    for (int64_t i = 0; i < v.rows(); ++i)
      for (int64_t j = 0; j < v.cols(); ++j) out.push_back(v.dtype == DType::f64 ? v.row<double>(i)[j] : v.row<float>(i)[j]);
    Batch none;
    ctx->begin(none, false);
    return out;
  }

  HeapArena arena;  // outlives all tensors
  std::unique_ptr<Model> model;
  Kernels kernels;
  Types types;
  FlatStore store;
  std::unique_ptr<Stash> stash;
  Recipe recipe;
  std::unique_ptr<Ctx> ctx;
};

}  // namespace ravine

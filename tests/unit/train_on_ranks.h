// Training on ranks that are threads (rank_threads.h): models, batches, results of a run, and comparisons of two runs.
#pragma once
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "kernels/backend.h"
#include "parallel/whole_units.h"
#include "runs/open.h"
#include "runs/run_state.h"
#include "step/experts.h"
#include "step/layout.h"
#include "tests/unit/rank_threads.h"

namespace ravine {

inline constexpr int64_t kRankVocabulary = 19, kColumns = 12;  // 2 ranks have 10 and 9 rows; of 4 ranks one has 4 rows

inline Json like_llama(const std::string& type, const Json& more = Json::object()) {
  Json j{{"model_type", type},          {"hidden_size", 16},
         {"intermediate_size", 24},     {"num_hidden_layers", 2},
         {"num_attention_heads", 4},    {"vocab_size", kRankVocabulary},
         {"rms_norm_eps", 1e-5},        {"initializer_range", 0.3},
         {"hidden_act", "silu"},        {"max_position_embeddings", 32},
         {"tie_word_embeddings", false}};
  j.update(more);
  return j;
}

inline std::map<std::string, Json> families_for_ranks() {
  return {
      {"llama", like_llama("llama", {{"num_key_value_heads", 2}, {"pad_token_id", 3}})},
      {"llama, tied", like_llama("llama", {{"num_key_value_heads", 2},
                                           {"pad_token_id", 3},
                                           {"tie_word_embeddings", true},
                                           {"attention_bias", true},
                                           {"mlp_bias", true}})},
      {"mistral", like_llama("mistral", {{"num_key_value_heads", 2}, {"sliding_window", 3}})},
      {"qwen2", like_llama("qwen2", {{"num_key_value_heads", 2}})},
      {"phi3", like_llama("phi3", {{"num_key_value_heads", 2},
                                   {"sliding_window", 3},
                                   {"pad_token_id", 3},
                                   {"original_max_position_embeddings", 5},
                                   {"rope_scaling",
                                    {{"type", "longrope"}, {"short_factor", {1.0, 1.3}}, {"long_factor", {2.5, 6.0}}}}})},
      {"gemma2", like_llama("gemma2", {{"num_key_value_heads", 2},
                                       {"head_dim", 8},
                                       {"pad_token_id", 3},
                                       {"query_pre_attn_scalar", 6},
                                       {"sliding_window", 3},
                                       {"attn_logit_softcapping", 1.5},
                                       {"final_logit_softcapping", 2.0},
                                       {"tie_word_embeddings", true}})},
      {"deepseek_v2", like_llama("deepseek_v2", {{"q_lora_rank", nullptr},
                                                 {"kv_lora_rank", 6},
                                                 {"qk_nope_head_dim", 4},
                                                 {"qk_rope_head_dim", 6},
                                                 {"v_head_dim", 5},
                                                 {"first_k_dense_replace", 2}})},
      {"deepseek_v3", like_llama("deepseek_v3", {{"q_lora_rank", 7},
                                                 {"kv_lora_rank", 6},
                                                 {"qk_nope_head_dim", 4},
                                                 {"qk_rope_head_dim", 6},
                                                 {"v_head_dim", 5},
                                                 {"attention_bias", true},
                                                 {"first_k_dense_replace", 2}})},
      {"olmo2", like_llama("olmo2", {{"num_key_value_heads", 2}, {"pad_token_id", 3}})},
      {"qwen3", like_llama("qwen3", {{"num_key_value_heads", 2}, {"head_dim", 8}})},
      {"internlm", like_llama("internlm", {{"bias", true}, {"pad_token_id", 2}})},
      {"baichuan2-13b",
       [] {
         Json j = like_llama("baichuan", {{"z_loss_weight", 0}, {"model_max_length", 32}});
         j.erase("max_position_embeddings");
         return j;
       }()},
      {"bloom",
       {{"model_type", "bloom"},
        {"n_embed", 16},
        {"n_layer", 2},
        {"num_attention_heads", 4},
        {"vocab_size", kRankVocabulary},
        {"initializer_range", 0.3},
        {"pad_token_id", 3}}},
      {"gpt2",
       {{"model_type", "gpt2"},
        {"n_embd", 16},
        {"n_layer", 2},
        {"n_head", 4},
        {"n_positions", 32},
        {"vocab_size", kRankVocabulary},
        {"initializer_range", 0.3}}},
      // Expert matrices have 1024 elements: partial sums of gradient norms have this length.
      {"mixtral", like_llama("mixtral", {{"num_key_value_heads", 2},
                                         {"intermediate_size", 64},
                                         {"num_local_experts", 4},
                                         {"num_experts_per_tok", 2},
                                         {"output_router_logits", true},
                                         {"router_aux_loss_coef", 0.5}})},
      {"qwen2_moe", like_llama("qwen2_moe", {{"num_key_value_heads", 2},
                                             {"num_experts", 4},
                                             {"num_experts_per_tok", 1},
                                             {"moe_intermediate_size", 64},
                                             {"shared_expert_intermediate_size", 12},
                                             {"decoder_sparse_step", 1}})},
      {"pythia",
       {{"model_type", "gpt_neox"},
        {"hidden_size", 16},
        {"intermediate_size", 24},
        {"num_hidden_layers", 2},
        {"num_attention_heads", 4},
        {"vocab_size", kRankVocabulary},
        {"initializer_range", 0.3},
        {"rotary_pct", 0.5},
        {"max_position_embeddings", 32}}},
  };
}

// Returns micro batch `index` of a step: two documents per row, some ignored labels, more of them in later micro
// batches. All ids of the vocabulary occur.
inline MicroBatch micro_batch(int64_t step, int64_t index, int64_t columns) {
  MicroBatch m;
  m.rows = 1, m.columns = columns;
  const int64_t cut = columns / 3;
  for (int64_t i = 0; i < columns; ++i) {
    const auto word = philox(static_cast<uint64_t>(step), {static_cast<uint32_t>(index), static_cast<uint32_t>(i), 0, 0});
    m.ids.push_back(static_cast<int32_t>((i + 7 * index + 3 * step) % kRankVocabulary));
    const bool counts = word[1] % 8 >= static_cast<uint32_t>(index);
    m.labels.push_back(counts ? static_cast<int32_t>(word[0] % kRankVocabulary) : -100);
    m.positions.push_back(static_cast<int32_t>(i < cut ? i : i - cut));
    m.valid_tokens += counts;
  }
  m.segments = {{0, static_cast<int32_t>(cut)}, {static_cast<int32_t>(cut), static_cast<int32_t>(columns - cut)}};
  m.sequence_index = {step * 100 + index};
  return m;
}

struct Outcome {
  std::map<std::string, std::vector<double>> weights, exported;
  std::vector<double> losses, norms, valid;
  std::vector<double> routers;                // per step: losses, then for each layer the drop rate and the load
  std::map<Axis, std::vector<int64_t>> sent;  // per rank: bytes sent in the last step
};

inline Mesh requested_mesh(const Config& c) {
  return {.pipeline = static_cast<int>(c.parallel.pipeline),
          .data = static_cast<int>(c.parallel.data),
          .tensor = static_cast<int>(c.parallel.tensor),
          .expert = static_cast<int>(c.parallel.expert)};
}

inline std::map<Axis, int64_t> sent_by(const Communication& c) {
  return {{Axis::pipeline, c.pipeline}, {Axis::data, c.data}, {Axis::tensor, c.tensor}, {Axis::expert, c.expert}};
}

inline constexpr Axis kSending[] = {Axis::pipeline, Axis::data, Axis::tensor, Axis::expert};

// Trains the model on the ranks of config.parallel, and returns the outcome. `change` may change the declared
// parameters.
inline Outcome trained(const Json& shape, const Config& config, const std::function<void(ParamSet&)>& change = {}) {
  Outcome out;
  std::mutex mutex;
  double validation = 0;
  const Mesh mesh = requested_mesh(config);
  on_ranks(mesh, [&](const Ranks& ranks) {
    std::unique_ptr<Model> model = with_experts(make_model(shape, "test"), config);
    if (change) change(model->params());
    const RunLayout layout = run_layout(config, mesh.ranks(), *model);
    const int64_t columns = config.data.sequence_length;
    const bool narrow = config.precision.compute == DType::bf16;
    const Types types = Types::of(narrow ? DType::bf16 : DType::f64);
    StepEngine engine(
        *model, config, types, narrow ? backend_kernels(Backend::cpu, Bf16Products::widen) : backend_kernels(Backend::ref),
        {.rows = 1, .columns = columns, .micro_batches = layout.micro_batches, .validation = true, .leaves = layout.leaves},
        nullptr, &ranks);
    engine.allocate();
    begin_weights(engine, config);
    const auto mine = [&](int64_t step) {
      std::vector<MicroBatch> micros;
      for (int64_t i = 0; i < layout.micro_batches; ++i) {
        const int64_t d = ranks.at().data;
        micros.push_back(
            micro_batch(step, layout.round_robin ? i * ranks.mesh().data + d : d * layout.micro_batches + i, columns));
        micros.back().index = i;
      }
      return micros;
    };
    for (int64_t step = 1; step <= config.train.steps; ++step) {
      const auto sent = [&](Axis a) {
        return ranks.along(a).traffic().bytes + (a == Axis::pipeline ? ranks.back().traffic().bytes : 0) +
               (a == Axis::data && mesh.expert > 1 ? ranks.along(Axis::expert_data).traffic().bytes : 0);
      };
      std::map<Axis, int64_t> before;
      for (Axis a : kSending) before[a] = sent(a);
      const StepResult r = engine.run(mine(step), step, config.optimizer.lr);
      std::lock_guard lock(mutex);
      for (Axis a : kSending) {
        std::vector<int64_t>& all = out.sent[a];
        all.resize(static_cast<size_t>(mesh.ranks()));
        all[static_cast<size_t>(ranks.rank())] = sent(a) - before[a];
      }
      if (!ranks.first()) continue;
      for (const std::optional<double>& loss : {r.routers.balance, r.routers.z})
        if (loss) out.routers.push_back(*loss);
      for (const std::vector<double>* all : {&r.routers.drop_rate, &r.routers.load})
        out.routers.insert(out.routers.end(), all->begin(), all->end());
      out.losses.push_back(r.loss), out.norms.push_back(r.grad_norm), out.valid.push_back(static_cast<double>(r.valid));
    }
    const auto [part, count] = engine.evaluate(micro_batch(9, 0, columns));
    const double all = sum(ranks.all(), part).value() / mesh.data;  // every data rank evaluated the same micro batch
    // Whole parameters, as in a model folder.
    std::map<std::string, std::vector<double>> exported;
    auto number = [](const TensorView& v, int64_t i) {
      return v.dtype == DType::f64 ? v.as<double>()[i] : static_cast<double>(v.as<float>()[i]);
    };
    UnitExport whole_units(*model, engine.store(), ranks, engine.stages());
    if (ranks.first()) {
      for (const Unit& u : model->params().units()) {
        whole_units.acquire(u);
        for (const Param* p : u.params)
          for (int64_t i = 0; !p->tied && i < p->shape.count(); ++i)
            exported[p->name].push_back(number(whole_units.master(*p), i));
      }
      whole_units.end();
    } else {
      whole_units.serve();
    }
    std::lock_guard lock(mutex);
    validation = all;
    if (ranks.first()) out.exported = std::move(exported);
    for (const ParamBox& b : engine.store().boxes()) {
      std::vector<double>& whole = out.weights[b.param->name];
      whole.resize(static_cast<size_t>(b.param->shape.count()), NAN);
      for (int64_t i = 0; i < b.view.count(); ++i) {
        int64_t rest = i, at = 0, scale = 1;
        for (int d = b.param->shape.rank() - 1; d >= 0; --d) {
          at += (b.begin[static_cast<size_t>(d)] + rest % b.view.shape[d]) * scale;
          rest /= b.view.shape[d], scale *= b.param->shape[d];
        }
        double& position = whole[static_cast<size_t>(at)];
        const double x = number(b.view, i);
        EXPECT_TRUE(std::isnan(position) || position == x) << b.param->name << ": ranks that hold the same differ at " << at;
        position = x;
      }
    }
  });
  out.losses.push_back(validation);
  EXPECT_TRUE(out.exported == out.weights) << "what is exported is what the ranks hold";
  return out;
}

inline Config config_of(const std::map<std::string, int64_t>& parallel) {
  Config c;
  c.train.global_batch = 8;
  c.train.micro_batch = 1;
  c.train.steps = 3;
  c.train.recompute = Recompute::cheap;
  c.data.sequence_length = kColumns;
  c.optimizer.type = OptimizerType::sgd;
  c.optimizer.momentum = 0, c.optimizer.weight_decay = 0.1, c.optimizer.lr = 0.5, c.optimizer.clip_norm = 0.5;
  c.parallel.data = 1;
  c.parallel.zero_threshold = 100;
  c.parallel.sum_leaves = 4;
  for (const auto& [key, value] : parallel) {
    if (key == "data")
      c.parallel.data = value;
    else if (key == "tensor")
      c.parallel.tensor = value;
    else if (key == "pipeline")
      c.parallel.pipeline = value;
    else if (key == "expert")
      c.parallel.expert = value;
    else if (key == "virtual")
      c.parallel.virtual_stages = value;
    else if (key == "zero")
      c.parallel.zero = value;
    else if (key == "sequence")
      c.parallel.sequence = value != 0;
    else if (key == "leaves")
      c.parallel.sum_leaves = value;
    else
      ADD_FAILURE() << key;
  }
  return c;
}

inline double length(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += x * x;
  return std::sqrt(s);
}

// Sums of at most a few thousand terms, three steps of them: roundings of numbers of the size of the whole.
inline constexpr double kRoundings = 0x1p14 * 0x1p-53;

inline void expect_near(const Outcome& one, const Outcome& several, const std::string& what) {
  ASSERT_EQ(one.weights.size(), several.weights.size()) << what;
  for (const auto& [name, want] : one.weights) {
    const std::vector<double>& got = several.weights.at(name);
    ASSERT_EQ(got.size(), want.size()) << what;
    std::vector<double> off(want.size());
    for (size_t i = 0; i < want.size(); ++i) off[i] = got[i] - want[i];
    EXPECT_LE(length(off), kRoundings * (1 + length(want))) << what << ": " << name;
  }
  for (size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(several.losses[i], one.losses[i], kRoundings * one.losses[i])
        << what << ": loss of step " << i + 1 << ", of validation at last";
  for (size_t i = 0; i < one.norms.size(); ++i) {
    EXPECT_NEAR(several.norms[i], one.norms[i], kRoundings * one.norms[i]) << what << ": the norm, step " << i + 1;
    EXPECT_EQ(several.valid[i], one.valid[i]) << what;
  }
  ASSERT_EQ(one.routers.size(), several.routers.size()) << what;
  for (size_t i = 0; i < one.routers.size(); ++i)
    EXPECT_NEAR(several.routers[i], one.routers[i], kRoundings * (1 + one.routers[i])) << what << ": of routers, " << i;
}

inline void expect_same(const Outcome& one, const Outcome& several, const std::string& what) {
  auto first_difference = [&](const std::vector<double>& got, const std::vector<double>& want) -> std::string {
    for (size_t i = 0; i < std::max(got.size(), want.size()); ++i)
      if (i >= got.size() || i >= want.size() || got[i] != want[i])
        return fmt::format("[{}] is {:a}, was {:a}", i, i < got.size() ? got[i] : NAN, i < want.size() ? want[i] : NAN);
    return "";
  };
  for (const auto& [name, want] : one.weights)
    EXPECT_EQ(first_difference(several.weights.at(name), want), "") << what << ": " << name;
  EXPECT_EQ(several.weights.size(), one.weights.size()) << what;
  EXPECT_EQ(first_difference(several.norms, one.norms), "") << what << ": the norm of a step";
  EXPECT_EQ(first_difference(several.losses, one.losses), "") << what << ": the loss of a step, of validation at last";
  EXPECT_EQ(first_difference(several.routers, one.routers), "") << what << ": what routers did";
}

}  // namespace ravine

// Several ranks compute what one computes: every parameter after three steps, loss and norm, for every family; in double, where
// sums in another order differ by roundings only. Layouts that promise the same bits are compared bit for bit.
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "kernels/backend.h"
#include "parallel/whole_units.h"
#include "tests/unit/rank_threads.h"
#include "train/layout.h"
#include "train/open.h"

namespace ravine {
namespace {

constexpr int64_t kVocabulary = 19, kColumns = 12;  // over 2 ranks 10 and 9 rows, over 4 one has 4

Json like_llama(const std::string& type, const Json& more = Json::object()) {
  Json j{{"model_type", type},          {"hidden_size", 16},
         {"intermediate_size", 24},     {"num_hidden_layers", 2},
         {"num_attention_heads", 4},    {"vocab_size", kVocabulary},
         {"rms_norm_eps", 1e-5},        {"initializer_range", 0.3},
         {"hidden_act", "silu"},        {"max_position_embeddings", 32},
         {"tie_word_embeddings", false}};
  j.update(more);
  return j;
}

std::map<std::string, Json> families_for_ranks() {
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
        {"vocab_size", kVocabulary},
        {"initializer_range", 0.3},
        {"pad_token_id", 3}}},
      {"gpt2",
       {{"model_type", "gpt2"},
        {"n_embd", 16},
        {"n_layer", 2},
        {"n_head", 4},
        {"n_positions", 32},
        {"vocab_size", kVocabulary},
        {"initializer_range", 0.3}}},
      {"pythia",
       {{"model_type", "gpt_neox"},
        {"hidden_size", 16},
        {"intermediate_size", 24},
        {"num_hidden_layers", 2},
        {"num_attention_heads", 4},
        {"vocab_size", kVocabulary},
        {"initializer_range", 0.3},
        {"rotary_pct", 0.5},
        {"max_position_embeddings", 32}}},
  };
}

// Micro batch `index` of a step: two documents in each row, some labels that do not count, more of them in later ones. All ids
// of the vocabulary occur.
MicroBatch micro_batch(int64_t step, int64_t index, int64_t columns) {
  MicroBatch m;
  m.rows = 1, m.columns = columns;
  const int64_t cut = columns / 3;
  for (int64_t i = 0; i < columns; ++i) {
    const auto word = philox(static_cast<uint64_t>(step), {static_cast<uint32_t>(index), static_cast<uint32_t>(i), 0, 0});
    m.ids.push_back(static_cast<int32_t>((i + 7 * index + 3 * step) % kVocabulary));
    const bool counts = word[1] % 8 >= static_cast<uint32_t>(index);
    m.labels.push_back(counts ? static_cast<int32_t>(word[0] % kVocabulary) : -100);
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
  std::vector<int64_t> sent[3];  // by axis, of each rank: bytes in the last step
};

Outcome trained(const Json& shape, const Config& config, const std::function<void(ParamSet&)>& change = {}) {
  Outcome out;
  std::mutex mutex;
  double validation = 0;
  const Mesh mesh{static_cast<int>(config.parallel.pipeline), static_cast<int>(config.parallel.data),
                  static_cast<int>(config.parallel.tensor)};
  on_ranks(mesh, [&](const Ranks& ranks) {
    std::unique_ptr<Model> model = make_model(shape, "test");
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
      }
      return micros;
    };
    for (int64_t step = 1; step <= config.train.steps; ++step) {
      const auto sent = [&](Axis a) {
        return ranks.along(a).traffic().bytes + (a == Axis::pipeline ? ranks.back().traffic().bytes : 0);
      };
      std::array<int64_t, 3> before;
      for (Axis a : {Axis::pipeline, Axis::data, Axis::tensor}) before[static_cast<size_t>(a)] = sent(a);
      const StepResult r = engine.run(mine(step), step, config.optimizer.lr);
      std::lock_guard lock(mutex);
      for (Axis a : {Axis::pipeline, Axis::data, Axis::tensor}) {
        std::vector<int64_t>& all = out.sent[static_cast<size_t>(a)];
        all.resize(static_cast<size_t>(mesh.ranks()));
        all[static_cast<size_t>(ranks.rank())] = sent(a) - before[static_cast<size_t>(a)];
      }
      if (ranks.first())
        out.losses.push_back(r.loss), out.norms.push_back(r.grad_norm), out.valid.push_back(static_cast<double>(r.valid));
    }
    const auto [part, count] = engine.evaluate(micro_batch(9, 0, columns));
    const double all = sum(ranks.all(), part).value() / mesh.data;  // each data rank was given the same
    // Whole parameters as a model folder gets them.
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
        double& place = whole[static_cast<size_t>(at)];
        const double x = number(b.view, i);
        EXPECT_TRUE(std::isnan(place) || place == x) << b.param->name << ": ranks that hold the same differ at " << at;
        place = x;
      }
    }
  });
  out.losses.push_back(validation);
  EXPECT_TRUE(out.exported == out.weights) << "what is exported is what the ranks hold";
  return out;
}

Config config_of(const std::map<std::string, int64_t>& parallel) {
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

double length(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += x * x;
  return std::sqrt(s);
}

// Sums of at most a few thousand terms, three steps of them: roundings of numbers of the size of the whole.
constexpr double kRoundings = 0x1p14 * 0x1p-53;

void expect_near(const Outcome& one, const Outcome& several, const std::string& what) {
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
}

void expect_same(const Outcome& one, const Outcome& several, const std::string& what) {
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
}

TEST(TensorRanks, EveryFamilyIsWhatOneRankMakesOfIt) {
  for (const auto& [name, shape] : families_for_ranks()) {
    const Outcome one = trained(shape, config_of({}));
    EXPECT_GT(std::abs(one.losses[0] - one.losses[2]), 1e-3) << name << ": it learns";
    for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{
             {{"tensor", 2}}, {{"tensor", 2}, {"sequence", 1}}, {{"tensor", 4}, {"sequence", 1}}})
      expect_near(one, trained(shape, config_of(parallel)), fmt::format("{}, {}", name, Json(parallel).dump()));
  }
}

// One key/value head, held by all of four tensor ranks: its gradient is the sum over all four.
TEST(TensorRanks, OneHeadOnFourRanks) {
  const Json shape = like_llama("qwen2", {{"num_key_value_heads", 1}});
  const Outcome one = trained(shape, config_of({}));
  for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{
           {{"tensor", 4}}, {{"tensor", 4}, {"sequence", 1}}, {{"tensor", 4}, {"data", 2}, {"zero", 3}}})
    expect_near(one, trained(shape, config_of(parallel)), Json(parallel).dump());
}

TEST(TensorRanks, OnAnyMeshWithAnyZero) {
  const auto families = families_for_ranks();
  for (const std::string name : {"llama", "llama, tied", "qwen3"}) {
    const Json& shape = families.at(name);
    const Outcome one = trained(shape, config_of({}));
    for (int64_t sequence : {0, 1})
      for (const auto& more : std::vector<std::map<std::string, int64_t>>{
               {{"zero", 0}}, {{"zero", 1}}, {{"zero", 3}}, {{"pipeline", 2}, {"data", 1}}, {{"pipeline", 2}, {"zero", 2}}}) {
        std::map<std::string, int64_t> parallel{{"tensor", 2}, {"data", 2}, {"sequence", sequence}};
        for (const auto& [key, value] : more) parallel[key] = value;
        expect_near(one, trained(shape, config_of(parallel)), fmt::format("{}, {}", name, Json(parallel).dump()));
      }
  }
}

TEST(TensorRanks, RecomputationDropoutAndFrozenParameters) {
  const Json shape = families_for_ranks().at("qwen3");
  for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::full})
    for (int64_t sequence : {0, 1}) {
      auto config = [&](const std::map<std::string, int64_t>& parallel) {
        Config c = config_of(parallel);
        c.train.recompute = recompute, c.train.dropout = 0.2, c.train.attention_dropout = 0.3, c.train.steps = 2;
        return c;
      };
      const auto freeze = [](ParamSet& set) {
        for (const char* name :
             {"model.layers.0.self_attn.k_proj.weight", "model.layers.1.self_attn.q_norm.weight", "model.embed_tokens.weight"})
          set.find(name)->trainable = false;
      };
      expect_near(trained(shape, config({}), freeze), trained(shape, config({{"tensor", 2}, {"sequence", sequence}}), freeze),
                  fmt::format("{}, sequence {}", ravine::name(recompute), sequence));
    }
}

// The loss takes tokens 1024 at a time.
TEST(TensorRanks, MoreTokensThanAChunkOfTheLoss) {
  const Json shape = like_llama("llama", {{"hidden_size", 4},
                                          {"intermediate_size", 4},
                                          {"num_attention_heads", 2},
                                          {"num_hidden_layers", 1},
                                          {"max_position_embeddings", 2048}});
  auto config = [](const std::map<std::string, int64_t>& parallel) {
    Config c = config_of(parallel);
    c.train.global_batch = 2, c.train.steps = 1, c.data.sequence_length = 1100, c.parallel.sum_leaves = 1;
    return c;
  };
  const Outcome one = trained(shape, config({}));
  for (int64_t sequence : {0, 1})
    expect_near(one, trained(shape, config({{"tensor", 2}, {"sequence", sequence}})), fmt::format("sequence {}", sequence));
}

TEST(DataRanksAndStages, KeepEveryBit) {
  const auto families = families_for_ranks();
  for (const std::string name : {"llama, tied", "gpt2"}) {
    const Json& shape = families.at(name);
    const Outcome one = trained(shape, config_of({}));
    for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{{{"data", 2}},
                                                                            {{"data", 4}},
                                                                            {{"data", 2}, {"zero", 1}},
                                                                            {{"data", 2}, {"zero", 2}},
                                                                            {{"data", 2}, {"zero", 3}},
                                                                            {{"data", 4}, {"zero", 3}},
                                                                            {{"pipeline", 2}},
                                                                            {{"pipeline", 2}, {"data", 2}, {"zero", 1}},
                                                                            {{"pipeline", 2}, {"data", 2}, {"zero", 2}},
                                                                            {{"pipeline", 2}, {"data", 2}, {"zero", 3}}})
      expect_same(one, trained(shape, config_of(parallel)), fmt::format("{}, {}", name, Json(parallel).dump()));
  }
  const Json deep = like_llama("llama", {{"num_hidden_layers", 4}});
  const Outcome one = trained(deep, config_of({}));
  for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{
           {{"pipeline", 4}}, {{"pipeline", 2}, {"virtual", 2}}, {{"pipeline", 2}, {"virtual", 2}, {"data", 2}, {"zero", 1}}})
    expect_same(one, trained(deep, config_of(parallel)), Json(parallel).dump());
}

// 16-bit copies beside masters, moments in parts, heads whose rows are brought to length 1 (the masters are read), activations
// that are made again, dropout.
TEST(DataRanksAndStages, KeepEveryBitInBf16) {
  auto families = families_for_ranks();
  for (const std::string name : {"llama, tied", "baichuan2-13b", "gpt2"})
    for (const OptimizerType type : {OptimizerType::adamw, OptimizerType::sgd}) {
      auto config = [&](const std::map<std::string, int64_t>& parallel) {
        Config c = config_of(parallel);
        c.parallel.sum_leaves = 8;  // ZeRO 2 and 3 promise the same bits where a leaf is one micro batch
        c.precision.compute = DType::bf16, c.optimizer.type = type, c.optimizer.momentum = 0.9, c.optimizer.lr = 0.01,
        c.train.recompute = Recompute::full, c.train.dropout = 0.1;
        return c;
      };
      const Outcome one = trained(families.at(name), config({}));
      for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{{{"data", 2}},
                                                                              {{"data", 2}, {"zero", 1}},
                                                                              {{"data", 4}, {"zero", 2}},
                                                                              {{"data", 2}, {"zero", 3}},
                                                                              {{"pipeline", 2}},
                                                                              {{"pipeline", 2}, {"data", 2}, {"zero", 1}},
                                                                              {{"pipeline", 2}, {"data", 2}, {"zero", 3}}})
        expect_same(one, trained(families.at(name), config(parallel)),
                    fmt::format("{}, {}, {}", name, ravine::name(type), Json(parallel).dump()));
    }
}

// What is frozen stays, and the rest learns as if nothing were: gradients that are added up over micro batches too, beside a
// joined or a neighbouring one that is frozen.
TEST(Frozen, OneParameterStaysAndTheRestLearnsAsBefore) {
  for (const auto& [family, shape] : families_for_ranks()) {
    Config c = config_of({{"leaves", 1}});
    c.train.global_batch = 2, c.train.steps = 1, c.optimizer.clip_norm = 0, c.optimizer.weight_decay = 0;
    const Outcome all = trained(shape, c);
    std::unique_ptr<Model> model = make_model(shape, "test");
    std::map<std::string, std::vector<double>> begun;
    {
      Config still = c;
      still.optimizer.lr = 0;
      begun = trained(shape, still).weights;
    }
    for (const Param& p : model->params().params()) {
      if (p.tied || p.name.find("layers.1.") != std::string::npos) continue;
      const Outcome one = trained(shape, c, [&](ParamSet& set) { set.find(p.name)->trainable = false; });
      for (const auto& [name, weights] : one.weights)
        EXPECT_EQ(weights, (name == p.name ? begun : all.weights).at(name))
            << family << ": " << name << " beside a frozen " << p.name;
      double squares = 0;
      for (const auto& [name, weights] : all.weights)
        for (size_t i = 0; i < weights.size() && name != p.name; ++i)
          squares += std::pow((weights[i] - begun.at(name)[i]) / c.optimizer.lr, 2);
      EXPECT_NEAR(one.norms[0], std::sqrt(squares), 0x1p-40 * one.norms[0])
          << family << ": what is frozen does not count: " << p.name;
    }
  }
}

// A rank sends what the run on groups that are not there has counted, for `ravine plan`: also where most micro batches of a
// step were left out of that run.
TEST(Traffic, IsWhatThePlanSays) {
  auto families = families_for_ranks();
  for (const std::string name : {"llama", "llama, tied", "gpt2", "bloom"}) {
    for (const auto& parallel : std::vector<std::map<std::string, int64_t>>{{{"data", 2}},
                                                                            {{"data", 4}, {"zero", 1}},
                                                                            {{"data", 2}, {"zero", 2}},
                                                                            {{"data", 2}, {"zero", 3}},
                                                                            {{"pipeline", 2}},
                                                                            {{"pipeline", 2}, {"data", 2}, {"zero", 1}},
                                                                            {{"tensor", 2}},
                                                                            {{"tensor", 2}, {"sequence", 1}},
                                                                            {{"tensor", 4}, {"sequence", 1}},
                                                                            {{"tensor", 4}},
                                                                            {{"tensor", 2}, {"pipeline", 2}},
                                                                            {{"tensor", 2}, {"pipeline", 2}, {"sequence", 1}}})
      for (const char* recompute : {"none", "cheap", "full", "cheap, bf16"}) {
        Config c = config_of(parallel);
        const bool narrow = recompute == std::string("cheap, bf16");
        if (recompute == std::string("none")) c.train.global_batch = 16, c.parallel.sum_leaves = c.parallel.data;
        if (recompute == std::string("full"))
          c.train.global_batch = 16, c.parallel.sum_leaves = std::min<int64_t>(4, 2 * c.parallel.data);
        c.train.steps = 1, c.train.recompute = narrow ? Recompute::cheap : value_named<Recompute>(recompute).value(),
        c.precision.compute = narrow ? DType::bf16 : DType::f64;
        const Outcome run = trained(families.at(name), c);
        std::unique_ptr<Model> model = make_model(families.at(name), "test");
        const Mesh mesh{static_cast<int>(c.parallel.pipeline), static_cast<int>(c.parallel.data),
                        static_cast<int>(c.parallel.tensor)};
        const RunLayout layout = run_layout(c, mesh.ranks(), *model);
        for (int rank = 0; rank < mesh.ranks(); ++rank) {
          const Ranks fake = Ranks::fake(mesh, rank);
          const Communication plan =
              StepEngine(*model, c, Types::of(narrow ? DType::bf16 : DType::f64), ref_kernels(),
                         {.rows = 1, .columns = kColumns, .micro_batches = layout.micro_batches, .leaves = layout.leaves},
                         nullptr, &fake)
                  .communication();
          const int64_t want[] = {plan.pipeline, plan.data, plan.tensor};
          for (Axis a : {Axis::pipeline, Axis::data, Axis::tensor})
            EXPECT_EQ(run.sent[static_cast<size_t>(a)][static_cast<size_t>(rank)], want[static_cast<size_t>(a)]) << fmt::format(
                "{}, {}, recompute {}, rank {}, {}", name, Json(parallel).dump(), recompute, rank, ravine::name(a));
        }
      }
  }
}

}  // namespace
}  // namespace ravine

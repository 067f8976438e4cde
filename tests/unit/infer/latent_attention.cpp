// Latent attention beyond unit_family_golden and unit_family_gradients: the choice between the two ways over the cache,
// the contents of the cache, FLOPs by shapes. Also adapters beside kv_b_proj, and layers after the last one in files.
#include "files/safetensors.h"
#include "infer/generator.h"
#include "infer/kv_cache.h"
#include "io/huggingface.h"
#include "model/adapters.h"
#include "tests/unit/families.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_latent_attention {

const std::string kDeepseek = RAVINE_SOURCE_DIR "/tests/golden/families/deepseek_v3";

// How often each kernel is called.
struct Calls : Observer {
  std::map<std::string, int64_t> of;
  void after(const CallInfo& c) override { ++of[std::string(c.op)]; }
};

// One prompt of 12 tokens, then 4 more steps of one token; two layers. Heads have 4 own channels, 6 rotated, 5 of
// values; latents have 6. A whole prompt uses keys and values made of latents; later tokens, and pieces of two after
// the first, do not.
TEST(LatentAttention, TakesTheOrderWithFewerProducts) {
  LoadedModel s = load_model(kDeepseek, DType::f64, Backend::ref);
  const std::vector<int32_t> prompt{3, 7, 11, 4, 19, 5, 6, 8, 21, 22, 4, 9};
  for (const auto& [piece, expanded] : {std::pair<int64_t, int64_t>{1024, 1}, {2, 1}, {6, 1}}) {
    Calls calls;
    GenerateOptions o;
    o.max_new_tokens = 5, o.step_tokens = piece, o.observer = &calls;
    generate(s, {prompt}, o);
    const int64_t passes = ceil_div(12, piece) + 4;
    EXPECT_EQ(calls.of["latent_keys"], 2 * expanded) << "pieces of " << piece;
    EXPECT_EQ(calls.of["attention"], 2 * passes) << "pieces of " << piece;
  }
}

// DeepSeek-V3 stores 512 + 64 numbers per token on every tensor rank; keys and values of 128 heads would be 40960.
TEST(LatentAttention, KeepsOneRowOfAToken) {
  AttentionSpec s;
  s.heads = s.kv_heads = 128, s.head_size = 192, s.value_size = 128;
  s.latent = LatentSpec{.q_rank = 1536, .kv_rank = 512, .rotated = 64};
  for (int ranks : {1, 4}) {
    EXPECT_EQ(cache_widths(s, ranks).keys, 576);
    EXPECT_EQ(cache_widths(s, ranks).values, 0);
  }
  AttentionSpec plain;
  plain.heads = 8, plain.kv_heads = 2, plain.head_size = 16;
  EXPECT_EQ(cache_widths(plain, 1).keys, 32);
  EXPECT_EQ(cache_widths(plain, 4).values, 16) << "a head each";
  SlotCache cache({0, 1, 2}, cache_widths(s, 1), DType::bf16, 2);
  cache.begin_step(10, 10);
  EXPECT_EQ(cache.bytes(), 3 * 2 * 10 * 576 * 2);
}

// By the shapes: 6 FLOPs for each element of a matrix, and 3 (D + E) for each pair of head and token, over all heads.
TEST(LatentAttention, FlopsOfATokenByTheShapes) {
  Json c = tiny_families().at("deepseek_v3");
  const double heads = 3, query = 12 * 7 + 7 * heads * (4 + 6), keys = 12.0 * (6 + 6) + 6 * heads * (4 + 5),
               out = heads * 5 * 12;
  const double matrices = 2 * (query + keys + out + 3.0 * 12 * 20) + 19 * 12;
  const auto model = make_model(c, "test");
  EXPECT_EQ(model->params().matrix_count(), matrices);
  EXPECT_EQ(model->training_flops_per_token(16), 6 * matrices + 2 * 16 * 3.0 * heads * (10 + 5));
  AttentionForward f;
  const std::vector<Segment> one{{0, 1, 0, 1}};
  f.at = {one, 6, 2, 10};
  f.at.value_size = 4;
  EXPECT_EQ(f.flops(), 2 * (10 + 4) * 6);
}

// An adapter on kv_b_proj is not in the weight that the second way multiplies by: keys and values are made with it.
TEST(LatentAttention, AdaptersCountOverTheCache) {
  LoraSettings lora;
  lora.rank = 2, lora.alpha = 3, lora.targets = {"kv_b_proj"}, lora.where = "lora.targets";
  TinyRun run(with_adapters(*make_model(tiny_families().at("deepseek_v3"), "test"), lora), DType::f64, Recompute::none);
  for (const Param& p : run.model->params().params())
    if (p.name.ends_with("lora_B.weight"))
      for (int64_t i = 0; i < p.shape.count(); ++i) run.store.master(p).as<double>()[i] = std::sin(static_cast<double>(i));
  run.store.refresh_copies(*run.ctx);
  const std::vector<int32_t> tokens = tiny_tokens(5, 7);
  TinyBatch whole;
  whole.add(tokens);
  const std::vector<double> want = run.logits(whole);
  SlotCache cache({0, 1}, cache_widths(run.model->decoder()->attention, 1), DType::f64, 1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    cache.begin_step(7, 7);
    cache.extend(0, 0, 1);
    std::vector<int32_t> id{tokens[i]}, position{static_cast<int32_t>(i)};
    Batch b;
    b.tokens = 1, b.max_position = static_cast<int64_t>(i) + 1, b.segments = cache.segments(), b.cache = &cache;
    b.ids = view_of(id.data(), DType::i32, {1}), b.positions = view_of(position.data(), DType::i32, {1});
    run.ctx->begin(b, false);
    run.model->forward(*run.ctx);
    const TensorView logits = run.ctx->outputs().at("logits").view();
    for (int64_t j = 0; j < 19; ++j)
      EXPECT_NEAR(logits.row<double>(0)[j], want[i * 19 + static_cast<size_t>(j)], 1e-12 * (1 + std::abs(want[i * 19]))) << i;
    const Batch none;
    run.ctx->begin(none, false);
  }
}

// Heads that predict further tokens are layers behind the last one in files: left out where config.json tells of them.
TEST(LatentAttention, LayersBehindTheLastOneAreNotRead) {
  TemporaryFolder dir;
  const SafetensorsReader was(kDeepseek + "/model.safetensors");
  std::vector<float> more(12, 1.0f);
  SafetensorsWriter out(dir / "model.safetensors");
  for (const TensorInfo& t : was.tensors()) out.declare(std::string(t.name), t.dtype, t.shape);
  out.declare("model.layers.2.enorm.weight", DType::f32, {12});
  for (const TensorInfo& t : was.tensors()) out.write(t.name, was.bytes(t));
  out.write("model.layers.2.enorm.weight", std::as_bytes(std::span(more)));
  out.commit();
  Json config = read_json(kDeepseek + "/config.json");
  auto open = [&](int64_t further) {
    config["num_nextn_predict_layers"] = further;
    spill(dir / "config.json", config.dump());
    return load_model(dir / "", DType::f32, Backend::cpu);
  };
  EXPECT_NO_THROW(open(1));
  EXPECT_THROW(open(0), UserError);
}

}  // namespace test_latent_attention
}  // namespace ravine

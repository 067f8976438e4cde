// Counts of products: of a token by the shapes of a model, and of what trains of it, against what its kernels run; and
// what kernels say of their arithmetic.
#include "model/adapters.h"
#include "tests/unit/families.h"

namespace ravine {
namespace test_model_flops {

// 6 FLOPs for each element of a matrix that a token meets, the head once whether tied or not, and attention over half
// of the sequence.
TEST(ModelFlops, OfATokenByTheShapes) {
  const Json shape{{"model_type", "llama"},  {"hidden_size", 24},        {"intermediate_size", 40},
                   {"num_hidden_layers", 3}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                   {"head_dim", 10},         {"vocab_size", 50},         {"max_position_embeddings", 64}};
  const double layer = 24.0 * 10 * (4 + 2 * 2) + 40.0 * 24 + 3.0 * 24 * 40, matrices = 3 * layer + 50 * 24;
  for (bool tied : {false, true}) {
    Json c = shape;
    c["tie_word_embeddings"] = tied;
    std::unique_ptr<Model> model = make_model(c, "test");
    EXPECT_EQ(model->params().matrix_count(), matrices) << tied;
    EXPECT_EQ(model->training_flops_per_token(64), 6 * matrices + 6.0 * 3 * 64 * 4 * 10) << tied;
    EXPECT_EQ(model->params().count(), matrices + 7 * 24 + (tied ? 0 : 50 * 24)) << "norms, and a table of its own";
  }
  // Under a window of 16, a query of 64 sees 16 keys but at the beginning: 16 - 16^2 / 128 on average, where it would
  // see half of 64.
  Json c = shape;
  c.update({{"model_type", "qwen2"}, {"use_sliding_window", true}, {"sliding_window", 16}, {"max_window_layers", 1}});
  c["head_dim"] = 10;
  EXPECT_EQ(make_model(c, "test")->training_flops_per_token(64), 6 * matrices + 12 * (32.0 + 2 * 14) * 4 * 10);
  c["sliding_window"] = 64;
  EXPECT_EQ(make_model(c, "test")->training_flops_per_token(64), 6 * matrices + 6.0 * 3 * 64 * 4 * 10)
      << "a window as long as the sequence hides nothing";
  std::unique_ptr<Model> unit = make_model(tiny_families().at("baichuan2-7b"), "test");
  EXPECT_EQ(unit->params().matrix_count(), 2 * (4 * 12 * 12 + 3 * 12 * 20) + 19 * 12) << "a head of unit rows is a product too";
}

// FLOPs of the products of one step, as the kernels that run count them.
double counted_products(std::unique_ptr<Model> model, TinyBatch tokens) {
  static double sum;
  static const Kernel<Matmul> matmul = ref_kernels().of<Matmul>();
  sum = 0;
  Kernels counting = ref_kernels();
  counting.of<Matmul>().run = [](const Matmul& a, void* workspace) {
    sum += a.flops();
    matmul.run(a, workspace);
  };
  TinyRun(std::move(model), DType::f64, Recompute::none, 0, {"loss_head"}, counting).only_loss(tokens);
  return sum;
}

// 4 for each element that is frozen: it needs no dw. The truth is what a step runs.
TEST(ModelFlops, OfFrozenWeights) {
  TinyBatch tokens;
  tokens.add(tiny_tokens(1, 8)), tokens.add(tiny_tokens(2, 4));
  auto products = [](const Model& m) {  // without attention, which is the same for all
    return m.training_flops_per_token(12) - 6.0 * 2 * 12 * 3 * 4;
  };
  for (const char* family : {"llama", "internlm"})
    for (const char* frozen : {"", "model.layers.*.mlp.*", "*.o_proj.weight", "lm_head.weight", "model.layers.1.*"}) {
      std::unique_ptr<Model> model = make_model(tiny_families().at(family), "test");
      if (*frozen) apply_rules(model->params(), {{.match = frozen, .freeze = true}});
      double elements = 0;
      for (const Param& p : model->params().params())
        if (!p.policy.trainable && (p.use == Use::matrix || p.use == Use::unit_matrix))
          elements += static_cast<double>(p.shape.count());
      EXPECT_EQ(elements > 0, *frozen != 0) << frozen;
      const double want = 6 * static_cast<double>(model->params().matrix_count()) - 2 * elements;
      EXPECT_EQ(products(*model), want) << family << " " << frozen;
      EXPECT_EQ(counted_products(std::move(model), tokens), 12 * want) << family << " " << frozen;
    }
  // A base under adapters trains the adapters only: 4 FLOPs per base element, 6 per adapter element. The first layer's
  // inputs need no gradient: dx of its q, k and v, and of the first halves of their adapters, is counted but not
  // computed.
  LoraSettings s;
  s.rank = 2, s.alpha = 3, s.targets = {"all-linear"}, s.where = "lora.targets";
  std::unique_ptr<Model> model = with_adapters(*make_model(tiny_families().at("llama"), "test"), s);
  double base = 0, adapters = 0, first = 0;
  for (const Param& p : model->params().params()) {
    if (p.use != Use::matrix) continue;
    const auto count = static_cast<double>(p.shape.count());
    EXPECT_EQ(p.policy.trainable, p.adapter) << p.name;
    (p.adapter ? adapters : base) += count;
    if (p.name.starts_with("model.layers.0.self_attn.") && p.name.find("o_proj") == std::string::npos &&
        p.name.find("lora_B") == std::string::npos)
      first += count;
  }
  EXPECT_GT(adapters, 0);
  EXPECT_EQ(products(*model), 4 * base + 6 * adapters);
  const double all = 12 * products(*model), ran = counted_products(std::move(model), tokens);
  EXPECT_LE(ran, all);
  EXPECT_GE(ran, all - 12 * 2 * first);
}

TEST(ModelFlops, OfKernels) {
  std::vector<float> memory(4096);
  auto view = [&](Shape s) { return view_of(memory.data(), DType::f32, s); };
  EXPECT_EQ((Matmul{view({3, 5}), view({5, 7}), {}, view({3, 7})}.flops()), 2 * 3 * 5 * 7);
  EXPECT_EQ((Matmul{view({5, 3}), view({7, 5}), {}, view({3, 7}), true, true}.flops()), 2 * 3 * 5 * 7);
  // Pairs of queries and keys that the mask lets through, one by one.
  const std::vector<Segment> segments = {{0, 6, 0, 6}, {6, 3, 6, 20}, {9, 4, 30, 2}};
  for (bool causal : {true, false})
    for (int64_t window : {0, 1, 4, 100}) {
      double pairs = 0;
      for (const Segment& s : segments)
        for (int64_t i = 0; i < s.q_count; ++i)
          for (int64_t j = 0; j < s.k_count; ++j) {
            const int64_t p = s.k_count - s.q_count + i;
            pairs += (!causal || j <= p) && (window == 0 || j > p - window);
          }
      AttentionForward f;
      f.at = {segments, 6, 2, 10, 1, causal, window, {}};
      EXPECT_EQ(f.flops(), 4 * 10 * 6 * pairs) << causal << window;
      AttentionBackward b;
      b.at = f.at;
      EXPECT_EQ(b.flops(), 8 * 10 * 6 * pairs) << causal << window;
    }
}

}  // namespace test_model_flops
}  // namespace ravine

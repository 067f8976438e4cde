// The tape over every family in f64: gradients against central differences; equality of every way to keep activations,
// of packed and padded batches with sequences by themselves.
#include <functional>
#include <set>

#include "tests/unit/families.h"
#include "tests/unit/tiers.h"

namespace ravine {
namespace test_family_gradients {

class Families : public testing::TestWithParam<std::string> {
 protected:
  Json config() const { return tiny_families().at(GetParam()); }
  static TinyBatch packed() {
    TinyBatch b;
    b.add(tiny_tokens(1, 8)), b.add(tiny_tokens(2, 5), 0, 1);
    return b;
  }
};

void expect_central_differences(TinyRun& run, TinyBatch& batch, const std::map<std::string, std::vector<double>>& gradients) {
  const double h = 1e-4;
  for (const Param& p : run.model->params().params()) {
    if (p.tied || !p.policy.trainable) continue;
    const std::vector<double>& g = gradients.at(p.name);
    double* w = run.store.master(p).as<double>();
    double scale = 0;
    for (double x : g) scale = std::max(scale, std::abs(x));
    EXPECT_GT(scale, 0) << p.name;
    for (int64_t i = 0; i < p.shape.count(); i += std::max<int64_t>(1, p.shape.count() / 4)) {
      double keep = w[i];
      auto at = [&](double d) {
        w[i] = keep + d;
        double l = run.only_loss(batch);
        w[i] = keep;
        return l;
      };
      // Five points: error h^4 f'''''/30, rounding eps |loss| / h.
      double d = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      EXPECT_NEAR(g[static_cast<size_t>(i)], d, 3e-10 + 1e-7 * scale) << p.name << " [" << i << "]";
    }
  }
}

TEST_P(Families, GradientsEqualCentralDifferences) {
  TinyBatch batch = packed();
  const bool due = Drawn::hash(GetParam()) % 2;  // short: one of the two, by family
  for (bool unfused : {false, true}) {
    if (!full_tier() && unfused != due) continue;
    TinyRun run(config(), DType::f64, Recompute::cheap, unfused ? 0.3 : 0,
                unfused ? std::vector<std::string>{"attention", "add_rms_norm", "add_layer_norm", "loss_head", "rope", "swiglu",
                                                   "geglu"}
                        : std::vector<std::string>());
    expect_central_differences(run, batch, run.gradients(batch));
  }
}

// Tests every kind of routing, and every router loss, whose gradients are added to the gradients of the labels. The
// choices stay constant: no moved number is near a value that changes a choice.
TEST(Experts, GradientsEqualCentralDifferences) {
  const auto tiny = tiny_families();
  auto with = [&](const std::string& family, const std::function<void(MoeSpec&)>& change) {
    auto model = make_model(tiny.at(family), "test");
    DecoderSpec spec = *model->decoder();
    change(*spec.moe);
    return make_decoder(model->config(), model->facts(), std::move(spec));
  };
  const std::vector<std::pair<const char*, std::function<void(MoeSpec&)>>> changes{
      {"pooled", [](MoeSpec& m) { m.losses = {.balance = LoadBalance::aux, .balance_coef = 0.3, .z_coef = 0.1}; }},
      {"by sequence", [](MoeSpec& m) { m.losses = {.balance = LoadBalance::seq_aux, .balance_coef = 0.3}; }},
      {"sigmoid",
       [](MoeSpec& m) {
         m.routing.scores = Routing::Scores::sigmoid, m.routing.normalise = true, m.routing.scaling = 2.5;
         m.losses = {.balance = LoadBalance::seq_aux, .balance_coef = 0.3, .z_coef = 0.1};
       }},
      {"softmax after", [](MoeSpec& m) { m.routing.normalise = false, m.routing.softmax_after = true; }},
      {"dropping", [](MoeSpec& m) {
         m.routing.capacity_factor = 0.8, m.routing.drop = Drop::probs;
         m.losses = {.balance = LoadBalance::aux, .balance_coef = 0.3};
       }}};
  for (const char* family : {"mixtral", "qwen2_moe"})
    for (const auto& [what, change] : changes) {
      SCOPED_TRACE(std::string(family) + ", " + what);
      TinyBatch batch;
      batch.add(tiny_tokens(1, 8)), batch.add(tiny_tokens(2, 5), 0, 1);
      TinyRun run(with(family, change), DType::f64, Recompute::cheap);
      expect_central_differences(run, batch, run.gradients(batch));
      // Losses of routers are counted once, however activations are kept.
      TinyRun none(with(family, change), DType::f64, Recompute::none), full(with(family, change), DType::f64, Recompute::full);
      double a = 0, b = 0, c = 0;
      const auto cheap = run.gradients(batch, &a);
      EXPECT_TRUE(cheap == none.gradients(batch, &b) && cheap == full.gradients(batch, &c));
      EXPECT_TRUE(a == b && b == c);
      // Padding to capacity computes zeros.
      TinyRun padded(with(family, [&](MoeSpec& m) { change(m), m.routing.pad_to_capacity = m.routing.drop != Drop::none; }),
                     DType::f64, Recompute::cheap);
      EXPECT_TRUE(cheap == padded.gradients(batch));
    }
}

// Two query heads of each key/value head beside each other: which pairs belong together shows only with several of
// both.
TEST(Unfused, AttentionAndHeadAreWhatTheFusedOnesAre) {
  Json grouped = tiny_families().at("llama");
  grouped.update({{"num_attention_heads", 6}, {"num_key_value_heads", 3}});
  for (const Json& config : {grouped, tiny_families().at("bloom"), tiny_families().at("mistral"), tiny_families().at("pythia"),
                             tiny_families().at("gemma2")})
    for (const char* op :
         {"attention", "loss_head", "add_rms_norm", "add_layer_norm", "qkv", "gate_up", "rope", "swiglu", "geglu"}) {
      TinyBatch batch;
      batch.add(tiny_tokens(1, 8)), batch.add(tiny_tokens(2, 5), 0, 1);
      double want, got;
      TinyRun fused(config, DType::f64, Recompute::none), apart(config, DType::f64, Recompute::none, 0, {op});
      const auto a = fused.gradients(batch, &want), b = apart.gradients(batch, &got);
      EXPECT_NEAR(want, got, 1e-13) << op;
      for (const auto& [name, g] : a)
        for (size_t i = 0; i < g.size(); ++i)
          ASSERT_NEAR(g[i], b.at(name)[i], 1e-13 + 1e-11 * std::abs(g[i])) << op << " " << name << " " << i;
    }
}

// The products of q, k and v, or of gate and up, one by one: what each column of a joined product is does not depend on
// its neighbours.
TEST(Unfused, ProductsApartGiveTheSameLogits) {
  for (const char* family : {"llama", "gpt2", "pythia", "qwen2"})
    for (DType t : {DType::f32, DType::bf16}) {
      TinyBatch batch;
      batch.add(tiny_tokens(1, 8)), batch.add(tiny_tokens(2, 5), 0, 1);
      TinyRun joined(tiny_families().at(family), t, Recompute::cheap, 0, {}, cpu_kernels()),
          apart(tiny_families().at(family), t, Recompute::cheap, 0, {"qkv", "gate_up"}, cpu_kernels());
      EXPECT_TRUE(joined.logits(batch) == apart.logits(batch)) << family << " " << name(t);
    }
}

// PyTorch's padding_idx: the row of the padding id learns nothing as an input, in the families whose code says so. In
// GPT-2, GPT-NeoX and Bloom it is a row as any other.
TEST(Padding, LearnsWhereItsFamilyLetsIt) {
  const std::set<std::string> learn = {"gpt2", "pythia", "pythia-serial", "bloom"};
  for (auto [name, config] : tiny_families()) {
    TinyBatch batch;
    batch.add({5, 3, 7, 3, 2, 3, 11}), batch.add({3, 1});
    config["tie_word_embeddings"] = false;
    TinyRun plain(config, DType::f64, Recompute::none);
    const auto want = plain.gradients(batch);
    config["pad_token_id"] = 3;
    TinyRun padded(config, DType::f64, Recompute::none);
    const auto got = padded.gradients(batch);
    for (const auto& [parameter, g] : want) {
      if (parameter != "model.embed_tokens.weight") {
        EXPECT_EQ(got.at(parameter), g) << name << ": " << parameter;
        continue;
      }
      const size_t width = g.size() / 19;
      for (size_t i = 0; i < g.size(); ++i) {
        const bool row = i / width == 3;
        EXPECT_EQ(got.at(parameter)[i], row && !learn.count(name) ? 0 : g[i]) << name << " " << i;
        if (row) EXPECT_NE(g[i], 0) << name;
      }
    }
  }
}

// Also with the kernels of cpu, whose fused norms must add as their unfused definition does.
TEST_P(Families, RecomputationAndUnfusedNormsKeepTheBits) {
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (const Kernels& table : {ref_kernels(), cpu_kernels()}) {
      TinyBatch batch = packed();
      double want, got;
      TinyRun run(config(), t, Recompute::none, 0.2, {}, table);
      auto first = run.gradients(batch, &want);
      for (const Recompute recompute : {Recompute::cheap, Recompute::full})
        for (bool unfused : {false, true}) {
          TinyRun other(config(), t, recompute, 0.2,
                        unfused ? std::vector<std::string>{"add_rms_norm", "add_layer_norm"} : std::vector<std::string>(),
                        table);
          auto g = other.gradients(batch, &got);
          EXPECT_EQ(want, got) << table.backend << " " << name(t) << " " << name(recompute);
          EXPECT_TRUE(first == g) << table.backend << " " << name(t) << " " << name(recompute);
        }
    }
}

// The result of a sequence depends neither on its neighbours in the batch nor on padding on either side.
TEST_P(Families, PackedAndPaddedRowsAreThemselves) {
  TinyRun run(config(), DType::f64, Recompute::cheap);
  const auto a = tiny_tokens(1, 8), b = tiny_tokens(2, 5);
  TinyBatch only_a, only_b, together;
  only_a.add(a), only_b.add(b);
  together.add(a, 3, 2), together.add(b, 4, 0);
  auto la = run.logits(only_a), lb = run.logits(only_b), all = run.logits(together);
  for (size_t i = 0; i < la.size(); ++i) EXPECT_NEAR(all[3 * 19 + i], la[i], 1e-12 * (1 + std::abs(la[i])));
  for (size_t i = 0; i < lb.size(); ++i) EXPECT_NEAR(all[17 * 19 + i], lb[i], 1e-12 * (1 + std::abs(lb[i])));
  double one, two, both;
  auto ga = run.gradients(only_a, &one), gb = run.gradients(only_b, &two), g = run.gradients(together, &both);
  EXPECT_NEAR(both, one + two, 1e-13 * both);
  double all_of_them = 0;
  for (auto& [name, values] : g)
    for (double x : values) all_of_them = std::max(all_of_them, std::abs(x));
  for (auto& [name, values] : g) {
    double scale = 1e-3 * all_of_them;  // the bias of k has no gradient but roundings: the softmax does not see it
    for (double x : values) scale = std::max(scale, std::abs(x));
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], ga.at(name)[i] + gb.at(name)[i], 1e-12 * scale) << name;
  }
}

// Families that Transformers has no class for are Llama by another name: the same declared names draw the same weights.
Json as_llama(const std::string& family, const Json& more = Json::object()) {
  Json c = tiny_families().at(family);
  for (const char* key : {"bias", "z_loss_weight", "model_max_length"}) c.erase(key);
  c["model_type"] = "llama";
  c["max_position_embeddings"] = 32;
  c.update(more);
  return c;
}

TEST(Relatives, AreLlamaBitForBit) {
  for (auto& [name, llama] : std::map<std::string, Json>{{"aquila", as_llama("aquila")},
                                                         {"internlm", as_llama("internlm", {{"attention_bias", true}})},
                                                         {"baichuan-7b", as_llama("baichuan-7b")}}) {
    for (const Kernels& table : {ref_kernels(), cpu_kernels()}) {
      TinyBatch batch;
      batch.add(tiny_tokens(1, 8)), batch.add(tiny_tokens(2, 5), 0, 1);
      TinyRun a(tiny_families().at(name), DType::f32, Recompute::cheap, 0, {}, table),
          b(llama, DType::f32, Recompute::cheap, 0, {}, table);
      EXPECT_TRUE(a.logits(batch) == b.logits(batch)) << name;
      double one, two;
      EXPECT_TRUE(a.gradients(batch, &one) == b.gradients(batch, &two)) << name;
      EXPECT_EQ(one, two) << name;
    }
  }
}

// Baichuan2 is Baichuan with the rows of the head brought to length 1 by hand; in a store for running,
// prepare_weights() does that once.
TEST(Relatives, NormHead) {
  for (const char* size : {"7b", "13b"}) {
    TinyBatch batch;
    batch.add(tiny_tokens(1, 8));
    TinyRun two(tiny_families().at(std::string("baichuan2-") + size), DType::f64, Recompute::cheap),
        one(tiny_families().at(std::string("baichuan-") + size), DType::f64, Recompute::cheap);
    const Param& head = *one.model->params().find("lm_head.weight");
    for (int64_t i = 0; i < head.shape[0]; ++i) {
      double* row = one.store.master(head).row<double>(i);
      double squares = 0;
      for (int64_t j = 0; j < head.shape[1]; ++j) squares += row[j] * row[j];
      for (int64_t j = 0; j < head.shape[1]; ++j) row[j] /= std::sqrt(squares);
    }
    auto want = one.logits(batch), got = two.logits(batch);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14 * 12);
    EXPECT_NEAR(two.only_loss(batch), one.only_loss(batch), 1e-12);
    two.model->prepare_weights(*two.ctx);
    auto settled = two.logits(batch);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(settled[i], want[i], 1e-14 * 12);
    auto& now = *two.model->params().find("lm_head.weight");
    double squares = 0;
    for (int64_t j = 0; j < head.shape[1]; ++j) squares += std::pow(two.store.master(now).row<double>(0)[j], 2);
    EXPECT_NEAR(squares, 1, 1e-14);
  }
}

// How files join and turn: which element of the file is which of the parameters.
TEST(Relatives, FilesAreLaidOutAsPublished) {
  auto tensor = [](const std::string& family, const std::string& name) {
    auto model = make_model(tiny_families().at(family), "test");
    for (const FileTensor& t : model->files().tensors)
      if (t.name == name) return std::tuple(t.shape, t.transposed, t.runs, t.params[0]->name);
    ADD_FAILURE() << family << " has no " << name;
    return std::tuple(Shape{}, false, std::vector<FileTensor::Run>(), std::string());
  };
  auto [pack, plain, stacked, q] = tensor("baichuan-7b", "model.layers.1.self_attn.W_pack.weight");
  EXPECT_TRUE((pack == Shape{36, 12}) && !plain && stacked.size() == 3 && q == "model.layers.1.self_attn.q_proj.weight");
  EXPECT_TRUE(stacked[1].param == 1 && stacked[1].row == 12 && stacked[1].count == 12);
  auto [heads, no, per_head, first] = tensor("bloom", "transformer.h.0.self_attention.query_key_value.bias");
  EXPECT_TRUE((heads == Shape{36}) && !no && per_head.size() == 9);
  EXPECT_TRUE(per_head[4].param == 1 && per_head[4].param_row == 4 && per_head[4].row == 16 &&
              per_head[4].count == 4);  // k of head 1
  auto [conv, turned, runs, name] = tensor("gpt2", "transformer.h.1.attn.c_attn.weight");
  EXPECT_TRUE((conv == Shape{12, 36}) && turned && runs.size() == 3);
  EXPECT_TRUE(std::get<0>(tensor("gpt2", "transformer.h.1.mlp.c_fc.weight")) == (Shape{12, 48}));
  EXPECT_TRUE(std::get<0>(tensor("pythia", "embed_out.weight")) == (Shape{19, 12}));
}

INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (auto& [name, config] : tiny_families()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) {
                           std::string s = info.param;
                           std::replace(s.begin(), s.end(), '-', '_');
                           return s;
                         });

}  // namespace test_family_gradients
}  // namespace ravine

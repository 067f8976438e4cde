// Adapters: gradients against central differences, logits against the model that they are merged into, which modules
// have one, names in files, and what is refused.
#include "model/adapters.h"

#include <gtest/gtest.h>

#include "tests/unit/families.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_model_adapters {

LoraSettings settings(std::vector<std::string> targets, int64_t rank = 2) {
  LoraSettings s;
  s.rank = rank, s.alpha = 3, s.targets = std::move(targets), s.where = "lora.targets";
  return s;
}

std::unique_ptr<Model> adapted(const Json& config, const LoraSettings& s) {
  return with_adapters(*make_model(config, "test"), s);
}

TinyBatch two_sequences() {
  TinyBatch b;
  b.add(tiny_tokens(1, 8)), b.add(tiny_tokens(2, 5), 0, 1);
  return b;
}

// A module whose name in files several declared ones share has one A.
const std::vector<std::pair<std::string, std::vector<std::string>>> kCases = {
    {"llama", {"all-linear"}},
    {"llama", {"q_proj", "v_proj", "down_proj"}},
    {"bloom", {"query_key_value", "dense"}},
    {"gpt2", {"c_attn", "c_proj"}},
    {"gemma2", {"all-linear"}},
    {"deepseek_v2", {"kv_a_proj_with_mqa", "kv_b_proj"}},
    {"deepseek_v3", {"all-linear"}},
    {"phi3", {"qkv_proj", "gate_up_proj"}},
    {"pythia", {"query_key_value"}},
    {"qwen2", {"all-linear"}},
    {"llama", {"embed_tokens", "lm_head", "q_proj"}}};
// Embedding and head are one table here; two adapters split it into two.
const std::vector<std::pair<std::string, std::vector<std::string>>> kTied = {
    {"gemma2", {"embed_tokens", "lm_head"}}, {"bloom", {"word_embeddings", "dense"}}, {"gpt2", {"wte", "lm_head", "c_attn"}}};

TEST(Adapters, GradientsEqualCentralDifferences) {
  auto cases = kCases;
  cases.insert(cases.end(), kTied.begin(), kTied.end());
  for (const auto& [family, targets] : cases)
    for (double dropout : {0.0, 0.4}) {
      LoraSettings s = settings(targets);
      s.dropout = dropout;
      TinyRun run(adapted(tiny_families().at(family), s), DType::f64, Recompute::cheap);
      TinyBatch batch = two_sequences();
      const auto grads = run.gradients(batch);
      size_t checked = 0;
      for (const Param& p : run.model->params().params()) {
        if (p.tied) continue;
        if (!p.policy.trainable) {
          EXPECT_TRUE(grads.at(p.name).empty()) << p.name << " is frozen";
          continue;
        }
        const auto& g = grads.at(p.name);
        double* w = run.store.master(p).as<double>();
        double scale = 0;
        for (double x : g) scale = std::max(scale, std::abs(x));
        EXPECT_GT(scale, 0) << family << " " << p.name;
        for (size_t i = 0; i < g.size(); i += 1 + g.size() / 5, ++checked) {
          const double h = 1e-3, was = w[i];
          auto at = [&](double d) {
            w[i] = was + d;
            const double l = run.only_loss(batch);
            w[i] = was;
            return l;
          };
          const double d = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
          EXPECT_NEAR(g[i], d, 3e-10 + 1e-7 * scale) << family << " " << p.name << " [" << i << "]";
        }
      }
      EXPECT_GT(checked, 10u);
    }
}

TEST(Adapters, AreWhatTheMergedModelIs) {
  for (const auto& [family, targets] : kCases)
    for (bool rslora : {false, true}) {
      LoraSettings s = settings(targets);
      s.rslora = rslora;
      s.rank_pattern = {{"layers.1.*|h.1.*", 3}};
      const double rank[] = {2, 3};
      TinyRun with(adapted(tiny_families().at(family), s), DType::f64, Recompute::none);
      TinyRun merged(tiny_families().at(family), DType::f64, Recompute::none);
      TinyBatch batch = two_sequences();
      EXPECT_EQ(adapted(tiny_families().at(family), s)->params().find("model.embed_tokens.weight")->policy.trainable, false);
      const Param* down = nullptr;
      for (const Unit& unit : with.model->params().units()) {
        std::map<std::string, const Param*> downs;
        for (const Param* p : unit.params)
          if (p->name.ends_with(".lora_A.weight")) downs[p->name.substr(0, p->name.size() - 14)] = p;
        for (const Param* p : unit.params) {
          if (p->name == "model.embed_tokens.lora_embedding_B.weight") {
            const Param* a = with.model->params().find("model.embed_tokens.lora_embedding_A.weight");
            double* w = merged.store.master(*merged.model->params().find("model.embed_tokens.weight")).as<double>();
            const double *rows = with.store.master(*a).as<double>(), *b = with.store.master(*p).as<double>();
            const int64_t r = p->shape[1], hidden = p->shape[0];
            ASSERT_EQ(a->shape, (Shape{19, r}));
            for (int64_t id = 0; id < 19; ++id)
              for (int64_t j = 0; j < hidden; ++j)
                for (int64_t k = 0; k < r; ++k)
                  w[id * hidden + j] += (rslora ? 3 / std::sqrt(2.0) : 1.5) * rows[id * r + k] * b[j * r + k];
          }
          if (!p->name.ends_with(".lora_B.weight")) continue;
          const std::string module = p->name.substr(0, p->name.size() - 14);
          if (downs.contains(module))
            down = downs.at(module);  // else the A of the previous module, which is joined with it in files
          ASSERT_NE(down, nullptr) << p->name;
          const int64_t r = p->shape[1], in = down->shape[1];
          ASSERT_EQ(down->shape[0], r);
          const double by = rank[unit.name == "model.layers.1"];
          EXPECT_EQ(r, by);
          const double scale = rslora ? 3 / std::sqrt(by) : 3 / by;
          double* w = merged.store.master(*merged.model->params().find(module + ".weight")).as<double>();
          const double *a = with.store.master(*down).as<double>(), *b = with.store.master(*p).as<double>();
          for (int64_t i = 0; i < p->shape[0]; ++i)
            for (int64_t j = 0; j < in; ++j)
              for (int64_t k = 0; k < r; ++k) w[i * in + j] += scale * b[i * r + k] * a[k * in + j];
        }
      }
      const auto got = with.logits(batch), want = merged.logits(batch);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-12) << family << " " << i;
    }
}

std::vector<std::string> names(const Model& m) {
  std::vector<std::string> out;
  for (const FileTensor& t : adapter_files(m).tensors) out.push_back(t.name + " " + t.shape.text());
  return out;
}

TEST(Adapters, NamesAreThoseOfPeft) {
  LoraSettings s = settings({"q_proj", "v_proj"});
  s.layers = {1}, s.save = {"embed_tokens"};
  const auto llama = names(*adapted(tiny_families().at("llama"), s));
  ASSERT_EQ(llama.size(), 5u);
  EXPECT_TRUE(llama[0].starts_with("base_model.model.model.layers.1.self_attn.q_proj.lora_")) << llama[0];
  EXPECT_TRUE(llama[4].starts_with("base_model.model.model.embed_tokens.weight ")) << llama[4];
  const auto bloom = names(*adapted(tiny_families().at("bloom"), settings({"query_key_value"})));
  EXPECT_EQ(bloom.size(), 2 * static_cast<size_t>(make_model(tiny_families().at("bloom"), "test")->facts().layers));
  for (const std::string& n : bloom) EXPECT_NE(n.find("self_attention.query_key_value.lora_"), std::string::npos) << n;
}

TEST(Adapters, OfTablesAreNamedAsPeftHasThem) {
  for (const auto& [family, table] :
       {std::pair{"llama", "model.embed_tokens"}, {"gemma2", "model.embed_tokens"}, {"gpt2", "transformer.wte"}}) {
    const std::string end = std::string(table).substr(std::string(table).rfind('.') + 1), peft = "base_model.model.";
    const std::vector<std::string> want = {peft + table + ".lora_embedding_A [2, 19]",
                                           peft + table + ".lora_embedding_B [12, 2]", peft + "lm_head.lora_A.weight [2, 12]",
                                           peft + "lm_head.lora_B.weight [19, 2]"};
    auto got = names(*adapted(tiny_families().at(family), settings({end, "lm_head"})));
    std::sort(got.begin(), got.end());
    EXPECT_EQ(got.size(), 4u);
    for (const std::string& n : want) EXPECT_NE(std::find(got.begin(), got.end(), n), got.end()) << family << ": " << n;
  }
  // all-linear leaves the tables alone, and so do chosen layers.
  for (const std::string& n : names(*adapted(tiny_families().at("llama"), settings({"all-linear"}))))
    EXPECT_NE(n.find(".layers."), std::string::npos) << n;
  LoraSettings s = settings({"embed_tokens", "q_proj"});
  s.layers = {1};
  EXPECT_EQ(names(*adapted(tiny_families().at("llama"), s)).size(), 2u);
}

TEST(Adapters, MegatronsWordsAreTheFamilys) {
  const auto llama = make_model(tiny_families().at("llama"), "test"), bloom = make_model(tiny_families().at("bloom"), "test");
  using Words = std::vector<std::string>;
  EXPECT_EQ(family_spelling(*llama, {"query_key_value", "dense_4h_to_h"}), (Words{"q_proj", "k_proj", "v_proj", "down_proj"}));
  EXPECT_EQ(family_spelling(*llama, {"word_embeddings", "output_layer"}), (Words{"embed_tokens", "lm_head"}));
  EXPECT_EQ(family_spelling(*bloom, {"query_key_value", "word_embeddings"}), (Words{"query_key_value", "word_embeddings"}));
  EXPECT_EQ(family_spelling(*llama, {"nothing"}), (Words{"nothing"}));
}

TEST(Adapters, ATiedTableTrainedWholeIsOneOrTwo) {
  const auto tied = make_model(tiny_families().at("gemma2"), "test"), own = make_model(tiny_families().at("llama"), "test");
  LoraSettings s = settings({"q_proj"});
  EXPECT_FALSE(saves_table(*tied, s));
  EXPECT_FALSE(parts_tables(*tied, s));
  s.save = {"embed_tokens"};
  EXPECT_TRUE(saves_table(*tied, s));
  EXPECT_TRUE(copies_table(*tied, s));
  EXPECT_TRUE(parts_tables(*tied, s));
  EXPECT_FALSE(copies_table(*own, s));
  EXPECT_FALSE(parts_tables(*own, s));
  s.ties_weights = true;
  EXPECT_FALSE(copies_table(*tied, s));
  EXPECT_FALSE(parts_tables(*tied, s));
  s = settings({"lm_head"});
  EXPECT_FALSE(copies_table(*tied, s));
  EXPECT_TRUE(parts_tables(*tied, s));
  s.ties_weights = true;
  EXPECT_NE(message_of<UserError>([&] { with_adapters(*tied, s); }).find("ensure_weight_tying"), std::string::npos);
}

TEST(Adapters, WhatCannotBeIsRefusedWithWhatThereIs) {
  const Json llama = tiny_families().at("llama");
  auto refused = [&](LoraSettings s, const std::string& part) {
    const std::string text = message_of<UserError>([&] { adapted(llama, s); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  refused(settings({"query"}), "no module of the model ends in 'query'");
  refused(settings({"query"}), "down_proj, embed_tokens, gate_proj, k_proj, lm_head, o_proj, q_proj, up_proj, v_proj");
  refused(settings({"norm"}), "no linear layer");
  LoraSettings s = settings({"q_proj"});
  s.layers = {99};
  refused(s, "layer 99 of");
  s = settings({"q_proj"}), s.save = {"nothing"};
  refused(s, "no module of the model ends in 'nothing'");
  s = settings({"q_proj"}), s.rank_pattern = {{"q_proj", 0}};
  refused(s, "rank 0");
  // The rows of this head are brought to length 1: PEFT has no adapter for it either.
  EXPECT_NE(message_of<UserError>([&] {
              adapted(tiny_families().at("baichuan2-7b"), settings({"lm_head"}));
            }).find("no linear layer: lm_head"),
            std::string::npos);
  Json tied = llama;
  tied["tie_word_embeddings"] = true;
  s = settings({"q_proj"}), s.save = {"lm_head"};
  EXPECT_NE(message_of<UserError>([&] { adapted(tied, s); }).find("tie_word_embeddings"), std::string::npos);
}

}  // namespace test_model_adapters
}  // namespace ravine

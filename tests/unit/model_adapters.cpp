// Adapters: gradients against central differences, logits against the model that they are merged into, which modules have one,
// names in files, and what is refused.
#include "model/adapters.h"

#include <gtest/gtest.h>

#include "tests/unit/families.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace {

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
const std::vector<std::pair<std::string, std::vector<std::string>>> kCases = {{"llama", {"all-linear"}},
                                                                              {"llama", {"q_proj", "v_proj", "down_proj"}},
                                                                              {"bloom", {"query_key_value", "dense"}},
                                                                              {"gpt2", {"c_attn", "c_proj"}},
                                                                              {"gemma2", {"all-linear"}},
                                                                              {"phi3", {"qkv_proj", "gate_up_proj"}},
                                                                              {"pythia", {"query_key_value"}},
                                                                              {"qwen2", {"all-linear"}}};

TEST(Adapters, GradientsEqualCentralDifferences) {
  for (const auto& [family, targets] : kCases)
    for (double dropout : {0.0, 0.4}) {
      LoraSettings s = settings(targets);
      s.dropout = dropout;
      TinyRun run(adapted(tiny_families().at(family), s), DType::f64, Recompute::cheap);
      TinyBatch batch = two_sequences();
      const auto grads = run.gradients(batch);
      size_t checked = 0;
      for (const Param& p : run.model->params().params()) {
        if (p.tied) continue;
        if (!p.trainable) {
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
      EXPECT_EQ(adapted(tiny_families().at(family), s)->params().find("model.embed_tokens.weight")->trainable, false);
      const Param* down = nullptr;
      for (const Unit& unit : with.model->params().units()) {
        std::map<std::string, const Param*> downs;
        for (const Param* p : unit.params)
          if (p->name.ends_with(".lora_A.weight")) downs[p->name.substr(0, p->name.size() - 14)] = p;
        for (const Param* p : unit.params) {
          if (!p->name.ends_with(".lora_B.weight")) continue;
          const std::string module = p->name.substr(0, p->name.size() - 14);
          if (downs.contains(module))
            down = downs.at(module);  // else that of the module before it, which is joined with it in files
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

TEST(Adapters, WhatCannotBeIsRefusedWithWhatThereIs) {
  const Json llama = tiny_families().at("llama");
  auto refused = [&](LoraSettings s, const std::string& part) {
    const std::string text = message_of<UserError>([&] { adapted(llama, s); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  refused(settings({"query"}), "no module of the model ends in 'query'");
  refused(settings({"query"}), "down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj");
  refused(settings({"lm_head"}), "no linear layer of a layer");
  LoraSettings s = settings({"q_proj"});
  s.layers = {99};
  refused(s, "layer 99 of");
  s = settings({"q_proj"}), s.save = {"nothing"};
  refused(s, "no module of the model ends in 'nothing'");
  s = settings({"q_proj"}), s.rank_pattern = {{"q_proj", 0}};
  refused(s, "rank 0");
  Json tied = llama;
  tied["tie_word_embeddings"] = true;
  s = settings({"q_proj"}), s.save = {"lm_head"};
  EXPECT_NE(message_of<UserError>([&] { adapted(tied, s); }).find("tie_word_embeddings"), std::string::npos);
}

}  // namespace
}  // namespace ravine

// Flags of ModelLink since the middle of 2024: model families, and newer spellings of its programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "config/yaml_json.h"
#include "dialects/megatron.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_dialects_megatron_recent {

using Flags = std::vector<std::string>;

Flags joined_flags(std::initializer_list<Flags> parts) {
  Flags out;
  for (const Flags& p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

const Flags kShape = {"--num-layers",
                      "4",
                      "--hidden-size",
                      "64",
                      "--num-attention-heads",
                      "4",
                      "--seq-length",
                      "64",
                      "--micro-batch-size",
                      "2",
                      "--max-position-embeddings",
                      "64",
                      "--train-iters",
                      "10",
                      "--lr",
                      "1e-4",
                      "--data-path",
                      "d",
                      "--vocab-size",
                      "128",
                      "--normalization",
                      "RMSNorm",
                      "--disable-bias-linear",
                      "--position-embedding-type",
                      "rope",
                      "--ffn-hidden-size",
                      "128"};

Json model_of(const Flags& more) {
  const Translation t = translate_megatron(placed(joined_flags({kShape, more})), {.ranks = 1});
  refuse_all(t);
  for (const Setting& s : t.settings())
    if (s.key == "model.config") return json_of(*load_yaml(s.value, "model.config", false));
  return Json();
}

std::string refusal_of(const Flags& more) {
  try {
    model_of(more);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(MegatronRecent, FlagsDescribeLaterFamilies) {
  const Json llama = model_of({"--swiglu", "--rope-scaling-type", "llama3", "--rope-scaling-factor", "8.0", "--low-freq-factor",
                               "1.0", "--high-freq-factor", "4.0", "--original-max-position-embeddings", "32"});
  EXPECT_EQ(llama["model_type"], "llama");
  EXPECT_EQ(llama["rope_scaling"], (Json{{"rope_type", "llama3"},
                                         {"factor", 8.0},
                                         {"low_freq_factor", 1.0},
                                         {"high_freq_factor", 4.0},
                                         {"original_max_position_embeddings", 32}}));
  const Json gemma =
      model_of({"--add-rmsnorm-offset", "--input-embeds-norm", "--gelu-tanh", "--post-norm", "--query-pre-attn-scalar", "256",
                "--output-logit-softcapping", "30.0", "--interleave-sliding-window", "16", "--kv-channels", "32"});
  EXPECT_EQ(gemma["model_type"], "gemma2");
  EXPECT_EQ(gemma["head_dim"], 32);
  EXPECT_EQ(gemma["attn_logit_softcapping"], nullptr) << "scores are not capped unless a flag says so";
  EXPECT_EQ(gemma["final_logit_softcapping"], 30.0);
  EXPECT_EQ(gemma["tie_word_embeddings"], true);
  const Json deep = model_of({"--swiglu",
                              "--multi-head-latent-attention",
                              "--qk-layernorm",
                              "--kv-lora-rank",
                              "16",
                              "--qk-rope-head-dim",
                              "8",
                              "--qk-nope-head-dim",
                              "16",
                              "--v-head-dim",
                              "16",
                              "--num-experts",
                              "8",
                              "--moe-router-topk",
                              "2",
                              "--moe-intermediate-size",
                              "32",
                              "--n-shared-experts",
                              "2",
                              "--first-k-dense-replace",
                              "1",
                              "--routed-scaling-factor",
                              "16.0",
                              "--moe-aux-loss-coeff",
                              "0.01",
                              "--seq-aux"});
  EXPECT_EQ(deep["model_type"], "deepseek_v2");
  EXPECT_EQ(deep["q_lora_rank"], nullptr);
  EXPECT_EQ(deep["topk_method"], "greedy");
  EXPECT_EQ(deep["n_routed_experts"], 8);
  EXPECT_FALSE(deep.contains("num_local_experts"));
  const Json qwen = model_of({"--swiglu", "--add-qkv-bias", "--num-experts", "8", "--shared-expert-gate", "--n-shared-experts",
                              "4", "--moe-intermediate-size", "32", "--moe-router-load-balancing-type", "softmax_topk"});
  EXPECT_EQ(qwen["model_type"], "qwen2_moe");
  EXPECT_EQ(qwen["shared_expert_intermediate_size"], 128);
  EXPECT_EQ(model_of({"--swiglu", "--qk-layernorm"})["model_type"], "qwen3");
  EXPECT_EQ(model_of({"--swiglu", "--sliding-window", "16"})["sliding_window"], 16);
}

TEST(MegatronRecent, WhatNoFamilyHasIsRefused) {
  for (const auto& [flags, said] : std::vector<std::pair<Flags, std::string>>{
           {{"--swiglu", "--use-glm-rope"}, "positions of GLM"},
           {{"--swiglu", "--scale-emb", "12"}, "scales of MiniCPM"},
           {{"--add-rmsnorm-offset", "--geglu", "--input-embeds-norm"}, "--post-norm is not given"},
           {{"--swiglu", "--topk-group", "3"}, "it is of DeepSeek's experts"},
           {{"--swiglu", "--rope-scaling-type", "llama3"}, "--rope-scaling-type llama3 without --low-freq-factor"},
           {{"--swiglu", "--swap-attention"}, "not moved to the host"},
           {{"--swiglu", "--stage", "dpo"}, "train.objective=dpo"}})
    EXPECT_NE(refusal_of(flags).find(said), std::string::npos) << said << ": " << refusal_of(flags);
}

TEST(MegatronRecent, ConvertersSayTheirFormBySwitches) {
  const TemporaryFolder folder;
  const auto command = [&](const Flags& more) {
    const Flags words = joined_flags({{"--load-dir", "in", "--save-dir", folder / ""}, more});
    const Translation t = translate_megatron(placed(words), {.program = "convert_ckpt.py"});
    refuse_all(t);
    return t.command;
  };
  const auto has = [](const Flags& words, const Flags& part) {
    return std::search(words.begin(), words.end(), part.begin(), part.end()) != words.end();
  };
  const Flags to_megatron = {"--model-type",      "GPT", "--model-type-hf",   "llama2",
                             "--load-model-type", "hf",  "--save-model-type", "mg"};
  EXPECT_TRUE(has(command(to_megatron), {"--to", "megatron-legacy"}));
  EXPECT_TRUE(has(command(joined_flags({to_megatron, {"--use-mcore-models", "--target-tensor-parallel-size", "2"}})),
                  {"--to", "megatron-mcore", "--tensor", "2"}));
  const Flags to_hf = {"--load-model-type", "mg", "--save-model-type", "hf"};
  EXPECT_TRUE(has(command(to_hf), {"--output", folder / "mg2hg", "--to", "hf"}));
  EXPECT_FALSE(has(command(to_hf), {"--model-config"}));
  std::ofstream(folder / "config.json") << "{}";
  EXPECT_TRUE(has(command(to_hf), {"--model-config", folder / "config.json"}));
}

TEST(MegatronRecent, ChatsByNamedTemplates) {
  const auto command = [](const Flags& more) {
    const Translation t = translate_megatron(placed(joined_flags({{"--load", "m"}, more})), {.program = "inference.py"});
    refuse_all(t);
    return t.command;
  };
  const auto has = [](const Flags& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const Flags chat = command({"--task", "chat", "--prompt-type", "llama2", "--use-kv-cache", "--use-mcore-models"});
  EXPECT_TRUE(has(chat, "--template") && has(chat, "llama2"));
  EXPECT_FALSE(has(command({"--task", "chat", "--prompt-type", "llama2", "--hf-chat-template"}), "--template"));
  EXPECT_TRUE(has(command({"--task", "greedy", "--prompt-type", "llama2"}), "--chat"));
}

TEST(MegatronRecent, FoldersOfRanksAreReadWithTheTokenizerOfTheFlags) {
  const TemporaryFolder folder;
  const auto answered = [&](const std::string& tokenizer) {
    const Flags line = {"--load", folder / "", "--tokenizer-type", "PretrainedFromHF", "--tokenizer-name-or-path", tokenizer};
    const Translation t = translate_megatron(placed(line), {.program = "inference.py"});
    refuse_all(t);
    return std::find(t.command.begin(), t.command.end(), "model.tokenizer=" + tokenizer) != t.command.end();
  };
  EXPECT_TRUE(answered("tok"));
  std::ofstream(folder / "tokenizer.json") << "{}";
  EXPECT_TRUE(answered("tok")) << "the flag counts over a tokenizer in the folder";
  EXPECT_FALSE(answered(folder / "")) << "the model's own folder";
}

}  // namespace test_dialects_megatron_recent
}  // namespace ravine

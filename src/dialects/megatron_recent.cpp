// Flags that ModelLink has had since the middle of 2024: models of later families, and switches of speed and memory.
#include "dialects/megatron_tables.h"

namespace ravine {
namespace {

using enum KeyType;

DialectTable recent_network_rows() {
  const char* model = "model.config";
  const char* glm = "positions of GLM have no family here";
  const char* cpm = "scales of MiniCPM have no family here";
  const char* grok = "scales of Grok have no family here";
  return {
      used("--rope-scaling-type", text, model, nullptr, {"llama3", "yarn", "linear"}),
      used("--rope-scaling-factor", number, model, 1.0),
      used("--low-freq-factor", number, model),
      used("--high-freq-factor", number, model),
      used("--original-max-position-embeddings", number, model),
      used("--rope-scaling-original-max-position-embeddings", whole, model),
      used("--rope-scaling-beta-fast", number, model, 32),
      used("--rope-scaling-beta-slow", number, model, 1),
      used("--rope-scaling-mscale", number, model, 1.0),
      used("--rope-scaling-mscale-all-dim", number, model, 0.0),
      used("--sliding-window", whole, model),
      used("--qk-layernorm", on, model),
      used("--multi-head-latent-attention", on, model),
      used("--q-lora-rank", whole, model),
      used("--kv-lora-rank", whole, model),
      used("--v-head-dim", whole, model),
      used("--qk-rope-head-dim", whole, model),
      used("--qk-nope-head-dim", whole, model),
      used("--add-rmsnorm-offset", on, model),
      used("--input-embeds-norm", on, model),
      used("--gelu-tanh", on, model),
      used("--geglu", on, model),
      used("--post-norm", on, model),
      used("--query-pre-attn-scalar", whole, model),
      used("--output-logit-softcapping", number, model),
      used("--attn-logit-softcapping", number, model),
      used("--interleave-sliding-window", whole, model),
      refused("--use-glm-rope", on, glm, "train a model of another family"),
      refused("--no-post-layer-norm", on, "models end with a norm", "train a model of another family"),
      refused("--scale-emb", number, cpm, "train a model of another family"),
      refused("--dim-model-base", number, cpm, "train a model of another family"),
      refused("--scale-depth", number, cpm, "train a model of another family"),
      refused("--embedding-multiplier-scale", number, grok, "train a model of another family"),
      refused("--output-multiplier-scale", number, grok, "train a model of another family"),
      refused("--input-jitter", on, "inputs of routers get no noise"),
  };
}

DialectTable recent_expert_rows() {
  const char* model = "model.config";
  const char* exchange = "how tokens travel to their experts decides no number";
  return {
      used("--moe-router-load-balancing-type", text, "model.config, moe.load_balance", "aux_loss",
           {"aux_loss", "none", "None", "softmax_topk", "group_limited_greedy"}),
      used("--moe-intermediate-size", whole, model),
      used("--n-shared-experts", whole, model),
      used("--shared-expert-gate", on, model),
      used("--topk-group", whole, model),
      used("--routed-scaling-factor", number, model),
      used("--norm-topk-prob", on, model),
      used("--first-k-dense-replace", whole, model),
      used("--moe-layer-freq", whole, model),
      used("--seq-aux", on, "moe.load_balance"),
      renamed("--moe-expert-capacity-factor", number, "moe.capacity_factor"),
      used("--moe-pad-expert-input-to-capacity", on, "moe.pad_to_capacity"),
      used("--moe-token-drop-policy", text, "moe.drop", "probs", {"probs", "position"}),
      used("--moe-device-level-aux-loss-coeff", number, "0 alone: the load of devices adds nothing to the loss", 0.0),
      used("--moe-comm-aux-loss-coeff", number, "0 alone: the load of links adds nothing to the loss", 0.0),
      inert("--moe-grouped-gemm", on, "experts are multiplied as groups in any case, with the same numbers"),
      inert("--moe-permutation-async-comm", on, exchange),
      inert("--moe-token-dispatcher-type", text, exchange),
      inert("--enable-token-rearrange-opt", on, exchange),
      refused("--noisy-gate-policy", text, "scores of routers get no noise"),
  };
}

// Flags of Megatron-core since 2024 on the format and the writing of checkpoints.
DialectTable recent_checkpoint_rows() {
  const char* work = "how ranks share the work of a checkpoint decides no number in it";
  const char* garbage = "it is of Python's memory, which a run does not have";
  return {
      used("--ckpt-format", text, "torch alone with --save: a folder for each rank", nullptr,
           {"torch", "torch_dist", "torch_dcp", "zarr"}),
      used("--use-dist-ckpt", on, "refused with --save: --ckpt-format torch is written"),
      inert("--dist-ckpt-format", text, "--ckpt-format says it"),
      inert("--auto-detect-ckpt-format", on, "the form of --load is always found out"),
      inert("--async-save", on, "a run always goes on while a checkpoint is written"),
      inert("--ckpt-fully-parallel-save", on, work),
      inert("--no-ckpt-fully-parallel-save", on, work),
      inert("--ckpt-fully-parallel-load", on, work),
      inert("--ckpt-assume-constant-structure", on, work),
      inert("--manual-gc", on, garbage),
      inert("--manual-gc-interval", whole, garbage, 0),
      inert("--no-manual-gc-eval", on, garbage),
  };
}

DialectTable recent_idle_rows() {
  const char* fused = "fused or not, the numbers are the same";
  const char* cut = "it counts with --context-parallel-size above 1 alone";
  const char* times = "it belongs to --profile";
  DialectTable rows = {
      inert("--use-mcore-models", on, "names of both kinds are read, and --save writes those of Megatron-core"),
      inert("--use-fused-swiglu", on, fused),
      inert("--no-rope-fusion", on, fused),
      inert("--no-bias-swiglu-fusion", on, fused),
      inert("--lora-fusion", on, fused),
      inert("--use-mc2", on, "whether products and sums over ranks overlap decides no number"),
      inert(
          "--transformer-impl", text,
          "the numbers are the same; --save writes the names of local, so a Megatron run with transformer_engine does not find its norms there"),
      inert("--jit-compile", on, "nothing is compiled while it runs"),
      inert("--use-deter-comp", on, "a run repeats itself bit for bit in any case"),
      inert("--no-shared-storage", on, "where files lie is the same; hosts share one folder here"),
      inert("--no-check-for-nan-in-loss-and-grad", on,
            "a run without NaN is the same; one with NaN ends, as its weights would be NaN"),
      inert("--no-create-attention-mask-in-dataloader", on, "attention knows its documents without a mask"),
      inert("--input-layernorm-in-fp32", on,
            "norms are computed in f32 in any case; what attention reads of them has the type of the arithmetic"),
      inert("--reuse-fp32-param", on, "it saves memory there; numbers are the same"),
      inert("--recompute-activation-function", on, "activation functions are recomputed in any case (train.recompute=cheap)"),
      inert("--recompute-activation-function-num-layers", whole,
            "activation functions of all layers are recomputed in any case (train.recompute=cheap)"),
      used("--enable-recompute-layers-per-pp-rank", on, "refused with virtual stages, whose layers are counted by part"),
      inert("--output-layer-slice-num", whole, "logits are never kept: the loss takes them in parts"),
      inert("--shape-order", text, "tensors have one order here"),
      inert("--sparse-mode", whole, "attention always leaves the masked half of the scores out"),
      used("--pre-tockens", whole, "refused below --seq-length: attention reaches back to the first token"),
      used("--next-tockens", whole, "refused below 0: a token sees itself and all before it"),
      inert("--context-parallel-algo", text, cut),
      inert("--ulysses-degree-in-cp", whole, cut),
      inert("--cp-attention-mask-type", text, cut),
      inert("--use-cp-send-recv-overlap", on, cut),
      inert("--kv-head-repeat-before-uly-alltoall", on, cut),
      inert("--prompt-type", text, "rows are ids: what stands around a question was decided by preprocess_data.py"),
      inert("--pad-to-multiple-of", whole, "padding has no loss, and no token sees it"),
      refused("--full-shuffle-instruction-dataset", on,
              "rows of instructions have the order that the program gives without it"),
      inert("--load-checkpoint-loosely", on,
            "a checkpoint that fits is read alike; tensors that it lacks or has too many are refused by name, not passed over"),
      inert("--use-kv-cache", on, "training makes no text; where text is made, keys and values are always kept"),
      refused("--profile", on, "a run writes no profile", "leave it out; `ravine bench train --profile` tells where time goes"),
      refused("--swap-attention", on, "activations are not moved to the host", "use --recompute-granularity"),
      refused("--swap-modules", text, "activations are not moved to the host", "use --recompute-granularity"),
      refused("--enable-high-availability", on, "a job whose rank is lost ends",
              "start it again: it goes on from its checkpoint"),
      refused("--enable-optimizer-state-local-copy", on, "a job whose rank is lost ends",
              "start it again: it goes on from its checkpoint"),
      refused("--stage", text, "preferences are learned from records, not from token files",
              "use `ravine train train.objective=dpo`"),
  };
  for (const char* key : {"--profile-level", "--profile-save-path"}) rows.push_back(inert(key, text, times));
  for (const char* key : {"--profile-with-stack", "--profile-with-memory", "--profile-record-shapes", "--profile-with-cpu"})
    rows.push_back(inert(key, on, times));
  for (const char* key : {"--profile-step-start", "--profile-step-end"}) rows.push_back(inert(key, whole, times));
  rows.push_back(inert("--profile-ranks", wholes, times));
  return rows;
}

}  // namespace

DialectTable megatron_recent_rows() {
  return joined({recent_network_rows(), recent_expert_rows(), recent_checkpoint_rows(), recent_idle_rows()});
}

}  // namespace ravine

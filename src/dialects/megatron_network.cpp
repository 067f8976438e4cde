// Megatron's flags of the network.
#include "dialects/megatron_tables.h"

namespace ravine {
namespace {

using enum KeyType;

DialectTable megatron_shape_rows(MegatronAge age) {
  const bool classic = age == MegatronAge::classic;
  const char* model = "model.config";
  return {
      used("--num-layers", whole, model),
      used("--encoder-num-layers", whole, model),
      used("--hidden-size", whole, model),
      used("--ffn-hidden-size", whole, model),
      used("--num-attention-heads", whole, model),
      used("--kv-channels", whole, model),
      used("--group-query-attention", on, model),
      used("--num-query-groups", whole, model, 1),
      used("--max-position-embeddings", whole, model),
      used("--position-embedding-type", text, model, classic ? "absolute" : "learned_absolute",
           {"learned_absolute", "absolute", "rope", "alibi"}),
      used("--use-rotary-position-embeddings", on, model),
      used("--no-position-embedding", on, "rotary positions alone: none are added to the embedding"),
      used("--rotary-percent", number, model, 1.0),
      used("--rotary-base", number, model, 10000),
      used("--rotary-seq-len-interpolation-factor", number, model),
      used("--normalization", text, model, "LayerNorm", {"LayerNorm", "RMSNorm"}),
      used("--layernorm-epsilon", number, model),
      used("--norm-epsilon", number, model),
      used("--swiglu", on, model),
      used("--no-add-gate", on, model),
      used("--add-bias-linear", on, model),
      used("--disable-bias-linear", on, model),
      used("--add-qkv-bias", on, model),
      used("--add-dense-bias", on, model),
      used("--embed-layernorm", on, model),
      used("--lm-norm-weight", on, model),
      used("--untie-embeddings-and-output-weights", on, model),
      used("--no-untie-embeddings-and-output-weights", on, model),
      used("--make-vocab-size-divisible-by", whole, model, 128),
      used("--pad-vocab-size-to", whole, model),
      used("--padded-vocab-size", whole, model),
      used("--vocab-size", whole, model),
      used("--init-method-std", number, model, 0.02),
      used("--num-experts", whole, model),
      used("--moe-router-topk", whole, model, 2),
      renamed("--moe-aux-loss-coeff", number, "moe.aux_loss, moe.load_balance"),
      renamed("--moe-z-loss-coeff", number, "moe.z_loss"),
      used("--moe-train-capacity-factor", number, "moe.capacity_factor, moe.drop"),
      used("--expert-interval", whole, model, 1),
  };
}

DialectTable megatron_other_network_rows() {
  const char* same = "attention here is one kernel, which gives the same numbers";
  return {
      refused("--apply-layernorm-1p", on, "norms have weights that begin at 1, not weights to which 1 is added"),
      refused("--apply-residual-connection-post-layernorm", on, "the residual stream goes past the norms"),
      used("--openai-gelu", on, "model.config"),
      refused("--onnx-safe", text, "it replaces the activation by an exact GELU, for files of ONNX"),
      refused("--squared-relu", on, "no family has squared ReLU"),
      refused("--init-method-xavier-uniform", on, "weights begin normal, with --init-method-std"),
      refused("--embedding-weights-in-fp32", on, "the embedding has the type of the rest", "leave it out: masters are f32"),
      refused("--topk", whole, "experts of DeepSpeed's layer are not those of Megatron", "write --moe-router-topk"),
      refused("--mlp-type", text, "residual experts are not offered"),
      inert("--mlp-layer-fusion", on, "gate and up are always one product, with the same numbers"),
      inert("--skip-bias-add", on, "it says where a bias is added, not whether"),
      inert("--query-key-layer-scaling", on, "scores are divided and multiplied again: softmax in f32 needs neither"),
      inert("--apply-query-key-layer-scaling", on, "scores are divided and multiplied again: softmax in f32 needs neither"),
      inert("--attention-softmax-in-fp32", on, "softmax is always computed in f32"),
      inert("--no-attention-softmax-in-fp32", on, "softmax is always computed in f32, which is no less exact"),
      inert("--no-masked-softmax-fusion", on, same),
      used("--no-bias-gelu-fusion", on, "model.config"),
      inert("--no-bias-dropout-fusion", on, "fused or not, the numbers are the same"),
      inert("--use-flash-attn", on, "attention is one kernel here, which never keeps its scores"),
      used("--triangle-attn", on, "attention always leaves the masked half of the scores out"),
      inert("--triangle-block-size", whole, "attention leaves the masked half out, in blocks of its own size", 512),
      inert("--use-fused-rmsnorm", on, "fused or not, the numbers are the same"),
      inert("--use-fused-rotary-pos-emb", on, "fused or not, the numbers are the same"),
      used("--square-alibi-mask", on, "refused without --fill-neg-inf and --use-flash-attn: ModelLink masks nothing then"),
      inert("--fill-neg-inf", on, "masked keys are left out, in whatever form the mask is written"),
      inert("--padding-attention-mask", on, "what padding asks is never read"),
      inert("--fp16-lm-cross-entropy", on, "the loss is computed in f32, which is no less exact"),
      used("--z-loss-weight", number, "0 alone: the loss on the largest logit is not offered"),
      inert("--fp32-residual-connection", on, "the residual stream is f32 in any case"),
      used("--vocab-extra-ids", whole, "0 alone: no model here has rows of sentinel ids", 0),
  };
}

}  // namespace

DialectTable megatron_network_rows(MegatronAge age) {
  return joined({megatron_shape_rows(age), megatron_other_network_rows()});
}

}  // namespace ravine

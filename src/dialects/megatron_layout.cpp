// Megatron's flags of ranks, pipelines and memory.
#include "dialects/megatron_tables.h"

namespace ravine {
namespace {

using enum KeyType;

DialectTable megatron_rank_rows() {
  const char* equal =
      "micro batches have one size here, and every sample one weight; there, samples of small micro batches weigh more";
  const char* sums = "sums over ranks have a fixed order here, and overlap with work where they can";
  return {
      copied("--tensor-model-parallel-size", whole, "parallel.tensor", 1),
      copied("--pipeline-model-parallel-size", whole, "parallel.pipeline", 1),
      renamed("--sequence-parallel", on, "parallel.sequence"),
      used("--num-layers-per-virtual-pipeline-stage", whole, "parallel.virtual"),
      renamed("--expert-model-parallel-size", whole, "parallel.expert", 1),
      used("--context-parallel-size", whole, "1 alone: sequences are not cut over ranks", 1),
      used("--use-distributed-optimizer", on, "parallel.zero"),
      used("--use-manual-layer-allocation", on, "parallel.stage_layers"),
      used("--manual-layers", text, "parallel.stage_layers"),
      used("--num-layer-list", text, "parallel.stage_layers"),
      inert("--foldx-mode", text, "it orders the work of virtual stages; the interleaved order has the same numbers"),
      inert("--fold-mode", text, "it orders the work of virtual stages; the interleaved order has the same numbers"),
      inert("--no-overlap-p2p-communication", on, "it says when stages send, not what"),
      inert("--no-scatter-gather-tensors-in-pipeline", on, "stages send whole tensors or their part as they hold them"),
      inert("--optimized-pipeline", on, equal),
      inert("--manual-mbs", text, equal),
      inert("--no-async-tensor-model-parallel-allreduce", on, sums),
      inert("--overlap-grad-reduce", on, sums),
      inert("--overlap-param-gather", on, sums),
      inert("--use-ring-exchange-p2p", on, "ranks talk through MPI"),
      inert("--DDP-impl", text, "there is one way to sum gradients over data ranks"),
      inert("--no-contiguous-buffers-in-local-ddp", on, "where gradients lie decides no number"),
      inert("--accumulate-allreduce-grads-in-fp32", on, "gradients are summed in f32 unless --release-fp32-grad is given"),
      inert("--no-gradient-accumulation-fusion", on,
            "products of micro batches are added in f32, as with the fusion; without it they are rounded to 16 bits there"),
      inert("--distributed-backend", text, "ranks talk through MPI"),
      used("--distributed-timeout-minutes", whole, "parallel.patience"),
      inert("--local_rank", whole, "the launcher says it"),
      inert("--local-rank", whole, "the launcher says it"),
      inert("--optimize-recomp-communication-level", whole, "it saves messages of recomputation, which decide no number"),
  };
}

DialectTable megatron_memory_rows() {
  const char* cut = "parallel.sequence";
  return {
      used("--checkpoint-activations", on, "train.recompute"),
      used("--checkpoint-policy", text, "train.recompute, train.recompute_layers", nullptr, {"full", "block", "custom"}),
      used("--checkpoint_block_layer", whole, "train.recompute_layers", 25),
      used("--recompute-activations", on, "train.recompute"),
      used("--recompute-granularity", text, "train.recompute", nullptr, {"full", "selective"}),
      used("--recompute-method", text, "train.recompute_layers", nullptr, {"uniform", "block", "custom"}),
      used("--recompute-num-layers", whole, "train.recompute_layers", 1),
      used("--recomputation-layer-num", wholes, "train.recompute_layers"),
      used("--distribute-saved-activations", on, cut),
      used("--distribute-checkpointed-activations", on, cut),
      used("--auto-recompute-device-size", whole, "train.recompute, train.memory_mb", -1),
      inert("--auto-recompute-profiling-step", whole, "memory is planned before the first step, not measured in the first ones",
            10),
  };
}

DialectTable megatron_deepspeed_rows() {
  return {
      used("--deepspeed", on, "parallel.zero"),
      used("--deepspeed_config", text,
           "parallel.zero, precision.scale_initial, precision.scale_window, precision.scale_hysteresis, precision.scale_min"),
      renamed("--zero-stage", number, "parallel.zero", 1),
      used("--no-pipeline-parallel", on, "parallel.pipeline"),
      inert("--deepspeed-activation-checkpointing", on,
            "--checkpoint-activations and --recompute-granularity say what is recomputed"),
      used("--partition-activations", on, "parallel.sequence"),
      inert("--checkpoint-in-cpu", on, "on this backend all memory is the CPU's"),
      used("--remote-device", text, "none alone: weights stay in memory", "none", {"none", "cpu", "nvme"}),
      inert("--zero-reduce-scatter", on, "how sums are sent decides no number; it follows from the stage"),
      inert("--zero-contigious-gradients", on, "where gradients lie decides no number"),
      inert("--zero-reduce-bucket-size", number, "the size of messages decides no number; they are units of the model"),
      inert("--zero-allgather-bucket-size", number, "the size of messages decides no number; they are units of the model"),
  };
}

}  // namespace

DialectTable megatron_layout_rows() {
  return joined({megatron_rank_rows(), megatron_memory_rows(), megatron_deepspeed_rows()});
}

}  // namespace ravine

// Megatron's flags of ranks, pipelines and memory.
#include "dialects/megatron_tables.h"

namespace ravine {
namespace {

using enum KeyType;

DialectTable megatron_rank_rows() {
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
      inert("--foldx-mode", text,
            "the interleaved schedule of the virtual stages runs, which gives the same numbers in less memory"),
      inert("--fold-mode", text,
            "the interleaved schedule of the virtual stages runs, which gives the same numbers in less memory"),
      inert("--no-overlap-p2p-communication", on, "what stages send waits for nobody here"),
      inert("--no-scatter-gather-tensors-in-pipeline", on, "stages send whole tensors or their part as they hold them"),
      inert("--optimized-pipeline", on, "micro batches all have --micro-batch-size, so that every sequence counts alike"),
      inert("--manual-mbs", text, "micro batches all have --micro-batch-size, so that every sequence counts alike"),
      inert("--no-async-tensor-model-parallel-allreduce", on, sums),
      inert("--overlap-grad-reduce", on, sums),
      inert("--overlap-param-gather", on, sums),
      inert("--use-ring-exchange-p2p", on, "ranks talk through MPI"),
      inert("--DDP-impl", text, "there is one way to sum gradients over data ranks"),
      inert("--no-contiguous-buffers-in-local-ddp", on, "gradients lie in flat buffers"),
      inert("--accumulate-allreduce-grads-in-fp32", on, "gradients are summed in f32 unless --release-fp32-grad is given"),
      inert("--no-gradient-accumulation-fusion", on, "gradients are accumulated in one place whatever it says"),
      inert("--distributed-backend", text, "ranks talk through MPI"),
      inert("--distributed-timeout-minutes", whole, "parallel.patience says how long a silent rank is waited for"),
      inert("--local_rank", whole, "the launcher says it"),
      inert("--local-rank", whole, "the launcher says it"),
      inert("--optimize-recomp-communication-level", whole, "recomputation sends nothing again that was kept"),
  };
}

DialectTable megatron_memory_rows() {
  const char* kept = "the inputs of layers lie where the layers run, and under --sequence-parallel in parts";
  return {
      used("--checkpoint-activations", on, "train.recompute"),
      used("--checkpoint-policy", text, "train.recompute, train.recompute_layers", nullptr, {"full", "block", "custom"}),
      used("--checkpoint_block_layer", whole, "train.recompute_layers", 25),
      used("--recompute-activations", on, "train.recompute"),
      used("--recompute-granularity", text, "train.recompute", nullptr, {"full", "selective"}),
      used("--recompute-method", text, "train.recompute_layers", nullptr, {"uniform", "block", "custom"}),
      used("--recompute-num-layers", whole, "train.recompute_layers", 1),
      used("--recomputation-layer-num", wholes, "train.recompute_layers"),
      inert("--distribute-saved-activations", on, kept),
      inert("--distribute-checkpointed-activations", on, kept),
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
      inert("--partition-activations", on, "what is kept between forward and backward is cut by --sequence-parallel"),
      inert("--checkpoint-in-cpu", on, "on this backend all memory is the CPU's"),
      used("--remote-device", text, "none alone: weights stay in memory", "none", {"none", "cpu", "nvme"}),
      inert("--zero-reduce-scatter", on, "how sums are sent follows from the stage"),
      inert("--zero-contigious-gradients", on, "gradients lie in flat buffers"),
      inert("--zero-reduce-bucket-size", number, "buckets are the units of the model"),
      inert("--zero-allgather-bucket-size", number, "buckets are the units of the model"),
  };
}

}  // namespace

DialectTable megatron_layout_rows() {
  return joined({megatron_rank_rows(), megatron_memory_rows(), megatron_deepspeed_rows()});
}

}  // namespace ravine

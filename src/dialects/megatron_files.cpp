// Megatron's flags of data, tokenizer, checkpoints and logs.
#include "dialects/megatron_tables.h"

namespace ravine {
namespace {

using enum KeyType;

DialectTable megatron_data_rows() {
  return {
      renamed("--data-path", texts, "data.train"),
      renamed("--train-data-path", texts, "data.train"),
      renamed("--valid-data-path", texts, "data.valid"),
      inert("--test-data-path", texts, "training tests nothing; `ravine eval` does"),
      renamed("--split", text, "data.split", "969, 30, 1"),
      renamed("--data-cache-path", text, "data.index_cache"),
      renamed("--seq-length", whole, "data.sequence_length"),
      renamed("--reset-position-ids", on, "data.reset_position_ids"),
      renamed("--reset-attention-mask", on, "data.reset_attention_mask"),
      renamed("--eod-mask-loss", on, "data.eod_mask_loss"),
      inert("--is-instruction-dataset", on, "files of instructions are known by their names"),
      used("--variable-seq-lengths", on, "data.pack"),
      inert("--keep-last-token", on, "samples have one token more than predictions, whose last is never asked for"),
      used("--dataloader-type", text, "data.order", "single", {"single", "cyclic"}),
      inert("--data-impl", text, "files of tokens are always mapped"),
      inert("--num-workers", whole, "batches are prepared by threads of the rank itself"),
      inert("--mmap-warmup", on, "pages are read as they are needed"),
      used("--tokenizer-type", text, "model.tokenizer", nullptr,
           {"PretrainedFromHF", "Llama2Tokenizer", "SentencePieceTokenizer", "GPTSentencePieceTokenizer", "GPT2BPETokenizer",
            "NullTokenizer", "BertWordPieceLowerCase", "BertWordPieceCase"}),
      renamed("--tokenizer-name-or-path", text, "model.tokenizer"),
      renamed("--tokenizer-model", text, "model.tokenizer"),
      used("--vocab-file", text, "model.tokenizer"),
      inert("--merge-file", text, "merges lie beside the vocabulary or in tokenizer.json"),
      inert("--tokenizer-not-use-fast", on, "both kinds of tokenizer give the same ids, and here is one"),
      inert("--tokenizer-padding-side", text, "rows of training are filled up behind their tokens"),
      refused("--tokenizer-kwargs", texts, "arguments of a Python class have no counterpart",
              "write the setting into tokenizer_config.json"),
      renamed("--eval-interval", whole, "train.valid_every", 1000),
      used("--eval-iters", whole, "train.valid_batches", 100),
      refused("--train-data-exact-num-epochs", whole, "a run takes as many samples as its steps need", "write --train-samples"),
  };
}

DialectTable megatron_checkpoint_rows() {
  return {
      renamed("--save", text, "train.output, checkpoint.layout"),
      renamed("--save-interval", whole, "checkpoint.every"),
      used("--load", text, "checkpoint.resume, model.weights, model.path"),
      used("--finetune", on, "model.weights"),
      inert("--no-initialization", on, "weights begin from the seed or a file, one of them"),
      used("--use-checkpoint-args", on, "model.path"),
      used("--exit-on-missing-checkpoint", on, "model.path"),
      inert("--save-to-cpu", on, "on this backend all memory is the CPU's"),
      used("--tensorboard-dir", text, "log.tensorboard"),
      inert("--tensorboard-log-interval", whole, "scalars are written with the lines of the log"),
      inert("--tensorboard-queue-size", whole, "scalars are written at once"),
      inert("--log-timers-to-tensorboard", on, "`ravine bench train --profile` tells where time goes"),
      inert("--log-learning-rate-to-tensorboard", on, "it always is"),
      inert("--log-loss-scale-to-tensorboard", on, "it always is"),
      inert("--log-validation-ppl-to-tensorboard", on, "the loss is written, and perplexity is its exponential"),
      inert("--log-memory-to-tensorboard", on, "the memory of the process always is"),
      inert("--log-world-size-to-tensorboard", on, "the number of ranks does not change within a run"),
      inert("--log-batch-size-to-tensorboard", on, "the batch does not change within a run"),
      inert("--log-throughput", on, "tokens and samples per second always are"),
      refused("--log-params-norm", on, "the norm of all weights is not taken", "use probe.dump with what=statistics"),
      refused("--log-num-zeros-in-grad", on, "zeros of gradients are not counted", "use probe.dump with what=statistics"),
      inert("--timing-log-level", whole, "`ravine bench train --profile` tells where time goes"),
      inert("--timing-log-option", text, "`ravine bench train --profile` tells where time goes"),
  };
}

}  // namespace

DialectTable megatron_files_rows() { return joined({megatron_data_rows(), megatron_checkpoint_rows()}); }

DialectTable megatron_training_table(MegatronAge age) {
  return joined({megatron_network_rows(age), megatron_training_rows(age), megatron_layout_rows(), megatron_files_rows(),
                 megatron_recent_rows()});
}

}  // namespace ravine

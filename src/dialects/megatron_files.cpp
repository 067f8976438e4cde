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
      used("--test-data-path", texts, "refused unless --eval-iters is 0: the end of a run has no test"),
      renamed("--split", text, "data.split", "969, 30, 1"),
      renamed("--data-cache-path", text, "data.index_cache"),
      renamed("--seq-length", whole, "data.sequence_length"),
      renamed("--reset-position-ids", on, "data.reset_position_ids"),
      renamed("--reset-attention-mask", on, "data.reset_attention_mask"),
      renamed("--eod-mask-loss", on, "data.eod_mask_loss"),
      used("--is-instruction-dataset", on, "data.train"),
      used("--variable-seq-lengths", on, "data.pack"),
      inert("--keep-last-token", on, "the same tokens are predicted, shifted in the batch or in the loss"),
      used("--dataloader-type", text, "data.order", "single", {"single", "cyclic"}),
      inert("--data-impl", text, "how files of tokens are read decides no number"),
      inert("--num-workers", whole, "batches are prepared by threads of the rank itself"),
      inert("--mmap-warmup", on, "pages are read as they are needed"),
      used("--tokenizer-type", text, "model.tokenizer", nullptr,
           {"PretrainedFromHF", "Llama2Tokenizer", "SentencePieceTokenizer", "GPTSentencePieceTokenizer", "GPT2BPETokenizer",
            "NullTokenizer", "BertWordPieceLowerCase", "BertWordPieceCase"}),
      renamed("--tokenizer-name-or-path", text, "model.tokenizer"),
      renamed("--tokenizer-model", text, "model.tokenizer"),
      used("--vocab-file", text, "model.tokenizer"),
      inert("--merge-file", text, "token files have their ids already; it lies beside --vocab-file"),
      inert("--tokenizer-not-use-fast", on, "both kinds of tokenizer give the same ids, and here is one"),
      inert("--tokenizer-padding-side", text,
            "no token sees padding, on either side of its row, and rotary positions are relative"),
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
      inert("--no-initialization", on, "it saves the time of drawing weights that --load replaces"),
      used("--use-checkpoint-args", on, "model.path"),
      used("--exit-on-missing-checkpoint", on, "model.path"),
      inert("--save-to-cpu", on, "all memory is the CPU's"),
      used("--tensorboard-dir", text, "log.tensorboard"),
      used("--tensorboard-log-interval", whole, "log.tensorboard_every", 1),
      inert("--tensorboard-queue-size", whole, "every point is written at once"),
      used("--log-timers-to-tensorboard", on, "log.tensorboard_omit"),
      used("--log-batch-size-to-tensorboard", on, "log.tensorboard_omit"),
      used("--no-log-learnig-rate-to-tensorboard", on, "log.tensorboard_omit"),
      used("--no-log-loss-scale-to-tensorboard", on, "log.tensorboard_omit"),
      used("--log-validation-ppl-to-tensorboard", on, "log.tensorboard_omit"),
      used("--log-memory-to-tensorboard", on, "log.tensorboard_omit"),
      used("--log-world-size-to-tensorboard", on, "log.tensorboard_omit"),
      used("--log-throughput", on, "log.figures"),
      used("--log-params-norm", on, "log.figures"),
      used("--log-num-zeros-in-grad", on, "log.figures"),
      used("--timing-log-level", whole, "0 alone: a run does not take the times of its parts", 0),
      inert("--timing-log-option", text, "it forms the lines of --timing-log-level 1 and 2"),
  };
}

}  // namespace

DialectTable megatron_files_rows() { return joined({megatron_data_rows(), megatron_checkpoint_rows()}); }

DialectTable megatron_training_table(MegatronAge age) {
  return joined({megatron_network_rows(age), megatron_training_rows(age), megatron_layout_rows(), megatron_files_rows(),
                 megatron_recent_rows()});
}

}  // namespace ravine

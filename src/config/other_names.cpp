#include "config/other_names.h"

#include <algorithm>

namespace ravine {
namespace {

struct OtherName {
  const char* word;  // underscores for dashes
  const char* here;
};

// Transformers' and TRL's arguments, then Megatron's, then llama.cpp's.
constexpr OtherName kOtherNames[] = {
    {"learning_rate", "optimizer.lr"},
    {"lr", "optimizer.lr"},
    {"min_lr", "schedule.min_lr_ratio (a share of optimizer.lr)"},
    {"weight_decay", "optimizer.weight_decay"},
    {"adam_beta1", "optimizer.betas, as [0.9, 0.95]"},
    {"adam_beta2", "optimizer.betas, as [0.9, 0.95]"},
    {"adam_epsilon", "optimizer.eps"},
    {"adam_eps", "optimizer.eps"},
    {"max_grad_norm", "optimizer.clip_norm"},
    {"clip_grad", "optimizer.clip_norm"},
    {"optim", "optimizer.type"},
    {"lr_scheduler_type", "schedule.type"},
    {"lr_decay_style", "schedule.type"},
    {"warmup_steps", "schedule.warmup_steps"},
    {"warmup_ratio", "schedule.warmup_steps (a number of steps)"},
    {"lr_warmup_iters", "schedule.warmup_steps"},
    {"per_device_train_batch_size", "train.micro_batch"},
    {"micro_batch_size", "train.micro_batch"},
    {"batch_size", "train.global_batch (sequences of a step) and train.micro_batch (at a time)"},
    {"global_batch_size", "train.global_batch"},
    {"gradient_accumulation_steps", "train.global_batch (sequences of a step; train.micro_batch of them at a time)"},
    {"max_steps", "train.steps"},
    {"train_iters", "train.steps"},
    {"num_train_epochs", "train.steps (ravine data show says how many steps a pass takes)"},
    {"epochs", "train.steps"},
    {"output_dir", "train.output"},
    {"save", "train.output"},
    {"load", "checkpoint.resume, or model.path for a model folder"},
    {"resume_from_checkpoint", "checkpoint.resume"},
    {"save_steps", "checkpoint.every"},
    {"save_interval", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep"},
    {"logging_steps", "log.every"},
    {"log_interval", "log.every"},
    {"eval_steps", "train.valid_every"},
    {"eval_interval", "train.valid_every"},
    {"model_name_or_path", "model.path"},
    {"model_name", "model.path"},
    {"tokenizer_name", "model.tokenizer"},
    {"tokenizer_name_or_path", "model.tokenizer"},
    {"tokenizer_model", "model.tokenizer"},
    {"train_file", "data.train"},
    {"dataset_name", "data.train (files: ravine reads no hub)"},
    {"data_path", "data.train"},
    {"validation_file", "data.valid"},
    {"block_size", "data.sequence_length"},
    {"max_seq_length", "data.sequence_length"},
    {"max_length", "data.sequence_length, for generation --max-new-tokens"},
    {"seq_length", "data.sequence_length"},
    {"split", "data.split"},
    {"seed", "train.seed"},
    {"bf16", "precision.compute=bf16"},
    {"fp16", "precision.compute=f16"},
    {"tf32", "precision.compute=f32"},
    {"torch_dtype", "precision.compute"},
    {"dtype", "precision.compute"},
    {"gradient_checkpointing", "train.recompute=full"},
    {"recompute_granularity", "train.recompute"},
    {"tensor_model_parallel_size", "parallel.tensor"},
    {"tensor_parallel_size", "parallel.tensor"},
    {"pipeline_model_parallel_size", "parallel.pipeline"},
    {"sequence_parallel", "parallel.sequence"},
    {"use_distributed_optimizer", "parallel.zero=1"},
    {"zero_stage", "parallel.zero"},
    {"nproc_per_node", "the number behind mpirun -n"},
    {"num_processes", "the number behind mpirun -n"},
    {"report_to", "log.tensorboard"},
    {"tensorboard_dir", "log.tensorboard"},
    {"m", "--model"},
    {"p", "--prompt"},
    {"n", "--max-new-tokens"},
    {"n_predict", "--max-new-tokens"},
    {"max_tokens", "--max-new-tokens"},
    {"max_new_tokens", "--max-new-tokens"},
    {"temp", "--temperature"},
    {"top_k", "--top-k"},
    {"top_p", "--top-p"},
    {"num_beams", "--beams"},
    {"do_sample", "--sample"},
    {"t", "--threads"},
    {"o", "--output, or train.output"},
    {"f", "--prompts"},
    {"adapter", "a merged model: adapters are not applied yet (merge them with PEFT)"},
    {"lora", "a merged model: adapters are not applied yet (merge them with PEFT)"},
    {"c", "--config"},
};

constexpr OtherName kOtherTypes[] = {
    {"fp32", "f32"},    {"float32", "f32"}, {"float", "f32"}, {"single", "f32"}, {"fp16", "f16"},  {"float16", "f16"},
    {"half", "f16"},    {"bfloat16", "bf16"}, {"fp64", "f64"}, {"float64", "f64"}, {"double", "f64"}, {"32", "f32"},
    {"16-mixed", "f16"}, {"bf16-mixed", "bf16"},
};

}  // namespace

std::string other_name_advice(std::string word) {
  word.erase(0, std::min(word.find_first_not_of('-'), word.size()));
  std::replace(word.begin(), word.end(), '-', '_');
  for (const OtherName& n : kOtherNames)
    if (word == n.word) return std::string("here it is ") + n.here;
  return "";
}

std::string other_type_name(const std::string& word) {
  for (const OtherName& n : kOtherTypes)
    if (word == n.word) return n.here;
  return "";
}

}  // namespace ravine

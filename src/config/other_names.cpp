#include "config/other_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/shell_word.h"

namespace ravine {
namespace {

struct OtherName {
  const char* word;  // underscores for dashes
  const char* here;  // begins with the option or flag; a row of a word counts where that is taken, the first such row wins
};

// What there is nothing for, and what to do instead.
struct Missing {
  const char* word;
  const char* advice;
};

constexpr Missing kMissing[] = {
    {"lora", "adapters are trained by `ravine train`, and read by generate, trace and convert: leave it out"},
    {"adapter", "it takes no adapter: make one model of both with `ravine merge-lora`"},
    {"device", "it computes on the CPU: leave it out"},
    {"device_map", "it computes on the CPU: leave it out"},
    {"gpu", "it computes on the CPU: leave it out"},
    {"gpus", "it computes on the CPU: leave it out; ranks are the number behind mpirun -n"},
    {"cuda", "it computes on the CPU: leave it out"},
    {"n_gpu_layers", "it computes on the CPU: leave it out"},
    {"ngl", "it computes on the CPU: leave it out"},
    {"load_in_8bit", "weights are not quantised here: leave it out; precision.compute=bf16 halves them"},
    {"load_in_4bit", "beside an adapter (lora.rank=8) lora.base=nf4 keeps the base in 4 bits; elsewhere leave it out"},
    {"trust_remote_code", "no code of models is run: leave it out"},
    {"deepspeed", "leave it out: parallel.zero=1 to 3 divides what DeepSpeed's stages do"},
    {"fsdp", "leave it out: parallel.zero=3 divides weights, gradients and moments"},
    {"nproc_per_node", "ranks are the number behind mpirun -n"},
    {"num_processes", "ranks are the number behind mpirun -n"},
    {"num_gpus", "ranks are the number behind mpirun -n"},
    {"flash_attn", "leave it out: attention is always fused"},
    {"use_flash_attn", "leave it out: attention is always fused"},
    {"do_train", "leave it out: the command says what is done"},
    {"do_eval", "leave it out: set train.valid_every and data.valid"},
    {"num_workers", "leave it out: the loader has a thread of its own"},
    {"overwrite_output_dir", "leave it out: choose another train.output, or checkpoint.resume=none"},
    {"stream", "leave it out: the text of one prompt comes as it is made"},
    {"dry_run", "leave it out: `ravine plan` shows memory and time of such a run, `ravine config` its options"},
    {"verbose", "leave it out: log.every says how often a line comes"},
    {"quiet", "leave it out: a larger log.every gives fewer lines"},
    {"stop", "leave it out: there are no stop texts; a model ends with its end token or after --max-new-tokens"},
    {"stop_strings", "leave it out: there are no stop texts; a model ends with its end token or after --max-new-tokens"},
    {"stage",
     "leave it out: what the files hold decides, text or conversations; train.objective=dpo learns from pairs of answers"},
    {"finetuning_type", "leave it out: lora.rank=8 trains an adapter, 0 all weights, train.freeze leaves some"},
    {"quantization_bit", "weights are not quantised here: leave it out"},
    {"overwrite_cache", "leave it out: tokens are made again where files or options differ"},
    {"preprocessing_num_workers", "leave it out: all cores make tokens"},
    {"dataloader_num_workers", "leave it out: the loader has a thread of its own"},
    {"dataset_info", "leave it out: data.train names the files"},
    {"dataset_dir", "leave it out: data.train names the files"},
    {"max_samples", "leave it out: train.steps says how much is read"},
    {"plot_loss", "leave it out: `ravine plot` draws the curves of a run"},
    {"ddp_timeout", "leave it out: parallel.patience says how long a silent rank is waited for"},
    {"per_device_eval_batch_size", "leave it out: validation takes train.micro_batch"},
    {"eval_strategy", "leave it out: train.valid_every says how often"},
    {"evaluation_strategy", "leave it out: train.valid_every says how often"},
    {"save_strategy", "leave it out: checkpoint.every says how often"},
    {"logging_dir", "leave it out: curves are written to train.output/tensorboard"},
    {"run_name", "leave it out: train.output names the run"},
    {"remove_unused_columns", "leave it out: of a record only what is asked for is read"},
    {"compute_environment", "leave it out: ranks are the number behind mpirun -n"},
    {"distributed_type", "leave it out: ranks are the number behind mpirun -n, parallel.zero=1 to 3 divides what they hold"},
    {"num_machines", "leave it out: ranks are the number behind mpirun -n, their hosts behind --host"},
    {"machine_rank", "leave it out: mpirun starts the ranks of all hosts"},
    {"main_process_ip", "leave it out: mpirun starts the ranks of all hosts"},
    {"main_process_port", "leave it out: mpirun starts the ranks of all hosts"},
    {"main_training_function", "leave it out: `ravine train` is the program"},
    {"rdzv_backend", "leave it out: mpirun starts the ranks of all hosts"},
    {"same_network", "leave it out: parallel.interface names a network"},
    {"use_cpu", "it computes on the CPU: leave it out"},
    {"downcast_bf16", "leave it out: precision.compute=bf16 says it"},
    {"deepspeed_config", "leave it out: parallel.zero=1 to 3 divides what DeepSpeed's stages do"},
    {"fsdp_config", "leave it out: parallel.zero=3 divides weights, gradients and moments"},
    {"zero_allow_untested_optimizer", "leave it out: every optimizer is divided alike"},
    {"ctx_size", "leave it out: the model's max_position_embeddings is the limit"},
    {"n_ctx", "leave it out: the model's max_position_embeddings is the limit"},
};

struct OtherCommand {
  const char* words;  // between blanks
  const char* advice;
};

constexpr OtherCommand kOtherCommands[] = {
    {" finetune fine-tune tune sft instruct ",
     "use `ravine train model.path=DIR data.train=[FILE]`; `ravine init sft DIR` makes a folder to begin with"},
    {" pretrain pretraining fit learn resume continue ",
     "use `ravine train`: a run that was stopped goes on with the same command"},
    {" lora peft ",
     "use `ravine train model.path=DIR lora.rank=8 data.train=[FILE]`; `ravine init lora DIR` makes a folder to begin with"},
    {" qlora ", "use `ravine train model.path=DIR lora.rank=8 lora.base=nf4 data.train=[FILE]`"},
    {" dpo ipo preference ",
     "use `ravine train train.objective=dpo model.path=DIR data.train=[FILE]`; `ravine init dpo DIR` makes a folder to begin with"},
    {" rlhf ppo grpo reward ", "it is not there; `ravine train train.objective=dpo` learns from pairs of answers"},
    {" serve server api ",
     "there is no server yet; `ravine generate --model DIR --prompts FILE.jsonl --json` answers many prompts"},
    {" chat talk conversation repl ",
     "use `ravine generate --chat --model DIR`: each line is a turn; with --prompt TEXT it answers once"},
    {" eval evaluate lm_eval benchmark ",
     "there are no tasks yet; train.valid_every measures the loss on data.valid, `ravine bench` the speed"},
    {" run infer inference predict complete completions sample prompt ask ", "use `ravine generate --model DIR --prompt TEXT`"},
    {" quantize quantise gguf ", "there is no quantisation; `ravine convert --to hf --dtype bf16` halves a model in f32"},
    {" download pull clone fetch ", "nothing is fetched here; `hf download NAME --local-dir DIR` brings a model"},
    {" launch torchrun mpirun accelerate deepspeed ", "several ranks are `mpirun -n N ravine train ..`"},
    {" export save merge ",
     "use `ravine convert --input RUN --output DIR --to hf`; token files are joined by `ravine data merge`"},
    {" tokenize encode decode ", "use `ravine tokenizer encode` and `ravine tokenizer decode`"},
    {" prepare prepare-data preprocess_data preprocess_data.py ",
     "use `ravine preprocess --input FILE --tokenizer DIR --output-prefix PREFIX`"},
    {" curves tensorboard visualize graph ", "use `ravine plot RUN`; TensorBoard reads RUN/tensorboard"},
    {" status logs log list ls show describe inspect ", "use `ravine info PATH`; the log of a run is RUN/log.txt"},
    {" new create setup start quickstart scaffold ", "use `ravine init DIR`"},
    {" kill cancel abort pause ", "use `ravine stop RUN`"},
    {" options settings explain ", "use `ravine config --list`, or `ravine config --explain train.steps`"},
    {" compare ", "use `ravine diff A B`"},
    {" test selftest doctor verify ", "use `ravine check determinism --config run.yaml`"},
};

// Transformers' and TRL's arguments, then Megatron's, then llama.cpp's.
constexpr OtherName kOtherNames[] = {
    {"model.name", "model.path"},
    {"model.name_or_path", "model.path"},
    {"model.dir", "model.path"},
    {"data.path", "data.train"},
    {"data.file", "data.train"},
    {"data.files", "data.train"},
    {"data.dataset", "data.train"},
    {"lora", "lora.rank=8, which trains adapters"},
    {"use_lora", "lora.rank=8, which trains adapters"},
    {"use_peft", "lora.rank=8, which trains adapters"},
    {"lora_r", "lora.rank"},
    {"lora_rank", "lora.rank"},
    {"lora_alpha", "lora.alpha"},
    {"lora_dropout", "lora.dropout"},
    {"lora_target", "lora.targets"},
    {"lora_target_modules", "lora.targets"},
    {"lora_modules_to_save", "lora.save"},
    {"modules_to_save", "lora.save"},
    {"additional_target", "lora.save"},
    {"lora_load", "lora.path"},
    {"adapter_name_or_path", "lora.path"},
    {"adapter", "lora.path"},
    {"use_rslora", "lora.rslora"},
    {"resize_vocab", "model.vocabulary=-1"},
    {"pad_vocab_size_to", "model.vocabulary"},
    {"padded_vocab_size", "model.vocabulary"},
    {"make_vocab_size_divisible_by", "model.vocabulary, the number of rows itself"},
    {"untie_embeddings_and_output_weights", "model.tie=untied"},
    {"tie_word_embeddings", "model.tie"},
    {"model", "--model"},
    {"model", "model.path"},
    {"model_path", "--model"},
    {"model_path", "model.path"},
    {"base_model", "--model"},
    {"base_model", "model.path"},
    {"data", "data.train"},
    {"dataset", "data.train"},
    {"train_data", "data.train"},
    {"train_path", "data.train"},
    {"valid_data", "data.valid"},
    {"eval_file", "data.valid"},
    {"val_data", "data.valid"},
    {"lr_scheduler", "schedule.type"},
    {"scheduler", "schedule.type"},
    {"warmup", "schedule.warmup_steps"},
    {"num_warmup_steps", "schedule.warmup_steps"},
    {"gradient_clipping", "optimizer.clip_norm"},
    {"grad_clip", "optimizer.clip_norm"},
    {"beta1", "optimizer.betas, as [0.9, 0.95]"},
    {"beta2", "optimizer.betas, as [0.9, 0.95]"},
    {"grad_accum", "train.global_batch (sequences of a step; train.micro_batch of them at a time)"},
    {"gradient_accumulation", "train.global_batch (sequences of a step; train.micro_batch of them at a time)"},
    {"iters", "train.steps"},
    {"max_iters", "train.steps"},
    {"num_steps", "train.steps"},
    {"epoch", "train.steps, which counts steps, not passes (ravine data show says how many steps a pass takes)"},
    {"out_dir", "train.output"},
    {"out", "--output"},
    {"out", "train.output"},
    {"o", "--output"},
    {"o", "--out"},
    {"o", "--output-prefix"},
    {"o", "train.output"},
    {"output", "--out"},
    {"output", "--output-prefix"},
    {"output", "train.output"},
    {"input", "--prompts"},
    {"input", "data.train"},
    {"file", "--prompts"},
    {"file", "--input"},
    {"files", "--input"},
    {"prompt_file", "--prompts"},
    {"i", "--chat (a conversation)"},
    {"i", "--input"},
    {"interactive", "--chat (a conversation)"},
    {"cnv", "--chat (a conversation)"},
    {"conversation", "--chat (a conversation)"},
    {"cutoff_len", "data.sequence_length"},
    {"val_size", "data.valid_fraction"},
    {"packing", "data.pack"},
    {"train_batch_size", "train.global_batch"},
    {"train_micro_batch_size_per_gpu", "train.micro_batch"},
    {"zero_optimization", "parallel.zero (1 to 3, as its stage)"},
    {"optimizer.params", "optimizer.lr, optimizer.betas, optimizer.eps and optimizer.weight_decay"},
    {"seq_len", "data.sequence_length"},
    {"seq_length", "--sequence-length"},
    {"context_length", "data.sequence_length"},
    {"resume", "checkpoint.resume"},
    {"precision", "precision.compute"},
    {"mixed_precision", "precision.compute"},
    {"tp", "parallel.tensor"},
    {"pp", "parallel.pipeline"},
    {"dp", "parallel.data"},
    {"zero", "parallel.zero"},
    {"max_length", "--max-new-tokens"},
    {"max_length", "data.sequence_length"},
    {"max_tokens", "--max-new-tokens"},
    {"length", "--max-new-tokens"},
    {"num_return_sequences", "--num-return"},
    {"repeat_penalty", "--repetition-penalty"},
    {"rep_pen", "--repetition-penalty"},
    {"batch_size", "--batch"},
    {"b", "--batch"},
    {"s", "--seed"},
    {"v", "--version (as `ravine --version`)"},
    {"cfg", "--config"},
    {"json_key", "--json-keys"},
    {"tokenizer_model", "--tokenizer"},
    {"tokenizer_name_or_path", "--tokenizer"},
    {"tokenizer_path", "--tokenizer"},
    {"tokenizer_path", "model.tokenizer"},
    {"tokenizer", "model.tokenizer"},
    {"handler_name", "--handler"},
    {"vocab_size", "--vocab-size"},
    {"vocabulary", "--vocab-size"},
    {"model_type", "--type"},
    {"save_dir", "--output"},
    {"output_dir", "--output"},
    {"output_path", "--output"},
    {"format", "--to"},
    {"target", "--to"},
    {"learning_rate", "optimizer.lr"},
    {"base_lr", "optimizer.lr"},
    {"schedule.base_lr", "optimizer.lr"},
    {"schedule.params", "schedule.warmup_num_steps and the like: what DeepSpeed has in params stands in the section itself"},
    {"initial_scale_power", "precision.scale_initial, 2 to that power: 65536 for 16"},
    {"init_loss_scale", "precision.scale_initial"},
    {"loss_scale_window", "precision.scale_window"},
    {"loss_scale_factor", "precision.scale_factor"},
    {"scale_factor", "precision.scale_factor"},
    {"min_loss_scale", "precision.scale_min"},
    {"hysteresis", "precision.scale_hysteresis"},
    {"loss_scale", "precision.loss_scale"},
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
    {"optimizer", "optimizer.type"},
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
    {"num_train_epochs", "train.steps, which counts steps, not passes (ravine data show says how many steps a pass takes)"},
    {"epochs", "train.steps, which counts steps, not passes (ravine data show says how many steps a pass takes)"},
    {"num_epochs", "train.steps, which counts steps, not passes (ravine data show says how many steps a pass takes)"},
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
    {"report_to", "log.tensorboard"},
    {"tensorboard_dir", "log.tensorboard, which writes to train.output/tensorboard"},
    {"m", "--model"},
    {"p", "--prompt"},
    {"n", "--max-new-tokens"},
    {"n_predict", "--max-new-tokens"},
    {"max_new_tokens", "--max-new-tokens"},
    {"temp", "--temperature"},
    {"top_k", "--top-k"},
    {"top_p", "--top-p"},
    {"num_beams", "--beams"},
    {"do_sample", "--sample (a switch)"},
    {"t", "--threads"},
    {"threads", "--workers"},
    {"num_threads", "--threads"},
    {"num_threads", "--workers"},
    {"num_proc", "--workers"},
    {"jobs", "--workers"},
    {"j", "--workers"},
    {"text_key", "--json-keys"},
    {"text_column", "--text-key"},
    {"text_column", "--json-keys"},
    {"text_column", "data.text_key"},
    {"text_field", "--text-key"},
    {"text_field", "data.text_key"},
    {"chat_template", "--template"},
    {"chat_template", "data.chat_template"},
    {"template", "--template"},
    {"template", "data.chat_template"},
    {"f", "--prompts"},
    {"pref_beta", "dpo.beta"},
    {"dpo_beta", "dpo.beta"},
    {"pref_loss", "dpo.loss"},
    {"dpo_loss_type", "dpo.loss"},
    {"loss_type", "dpo.loss"},
    {"dpo_label_smoothing", "dpo.label_smoothing"},
    {"pref_ftx", "dpo.ftx"},
    {"dpo_ftx", "dpo.ftx"},
    {"rpo_alpha", "dpo.ftx"},
    {"ref_model", "dpo.reference"},
    {"lora", "--adapter"},
    {"peft", "--adapter"},
    {"c", "--config"},
};

struct OtherValue {
  const char* name;   // of the option here
  const char* words;  // between blanks, in small letters
  const char* here;   // its value; empty: the advice is all there is to say
  const char* advice;
};

constexpr OtherValue kOtherValues[] = {
    {"optimizer.type", " adamw_torch adamw_torch_fused adamw_hf adamw_apex_fused adamw_torch_xla adamw_bnb adam_w ", "adamw",
     ""},
    {"optimizer.type",
     " adamw_8bit adamw_bnb_8bit paged_adamw paged_adamw_8bit paged_adamw_32bit rmsprop galore_adamw lomo schedule_free_adamw ",
     "", "there is no such optimizer: adamw is the default, adafactor, came, cadam and lion keep less"},
    {"optimizer.type", " fusedadam deepspeedcpuadam cpu_adam fused_adam ", "adamw", ""},
    {"optimizer.type", " lion_32bit fusedlion ", "lion", ""},
    {"optimizer.type", " fusedlamb ", "lamb", ""},
    {"optimizer.type", " onebitadam ", "onebit_adam", ""},
    {"optimizer.type", " zerooneadam ", "zeroone_adam", ""},
    {"optimizer.type", " onebitlamb ", "onebit_lamb", ""},
    {"optimizer.lr", " auto ", "", "write the rate itself, 3e-4 unless given"},
    {"schedule.type", " constant_with_warmup ", "constant", ""},
    {"schedule.type", " learningratewiselayer ", "", "leave it out: schedule.lr_scale multiplies the rate of any type"},
    {"schedule.type", " cosine_with_min_lr cosine_with_warmup warmup_cosine cosine_annealing ", "cosine", ""},
    {"schedule.type", " linear_with_warmup warmup_linear ", "linear", ""},
    {"schedule.type", " wsd ", "warmup_stable_decay", ""},
    {"schedule.type", " inverse-square-root ", "inverse_sqrt", ""},
    {"schedule.type", " plateau reducelronplateau reduce_on_plateau ", "reduce_lr_on_plateau", ""},
    {"schedule.type", " cosine_with_min_lr_warmup cosine_warmup ", "cosine_warmup_with_min_lr", ""},
    {"schedule.type", " greedylr greedy_lr ", "greedy", ""},
    {"log.tensorboard", " none no ", "false", ""},
    {"log.tensorboard", " tensorboard ", "true", ""},
    {"log.tensorboard", " wandb all mlflow comet_ml clearml neptune swanlab codecarbon dvclive trackio azure_ml ", "",
     "nothing is sent to such services: leave it out; files for TensorBoard are written unless log.tensorboard=false, and RUN/metrics.jsonl has every figure"},
    {"checkpoint.resume", " true yes ", "",
     "leave it out: the same command goes on from the newest checkpoint of its train.output"},
    {"checkpoint.resume", " latest newest last ", "auto", ""},
    {"checkpoint.resume", " false no ", "none", ""},
    {"checkpoint.keep", " all ", "0", ""},
    {"precision.loss_scale", " dynamic ", "0", ""},
    {"precision.gradients", " bf16 bfloat16 fp16 f16 float16 16 ", "compute", ""},
    {"precision.compute", " no none ", "f32", ""},
    {"train.recompute", " selective ", "cheap", ""},
    {"train.recompute", " no false off 0 ", "none", ""},
    {"train.recompute", " yes true on 1 block uniform ", "full", ""},
};

constexpr std::string_view kNo = " false no off 0 none ";

constexpr OtherName kOtherTypes[] = {
    {"fp32", "f32"},    {"float32", "f32"}, {"float", "f32"},     {"single", "f32"},      {"fp16", "f16"},
    {"float16", "f16"}, {"half", "f16"},    {"bfloat16", "bf16"}, {"fp64", "f64"},        {"float64", "f64"},
    {"double", "f64"},  {"32", "f32"},      {"16-mixed", "f16"},  {"bf16-mixed", "bf16"},
};

// `words` stand between blanks, in small letters.
bool is_one_of(std::string value, std::string_view words) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return !value.empty() && value.find(' ') == std::string::npos && words.find(" " + value + " ") != std::string_view::npos;
}

}  // namespace

std::string other_name_advice(std::string word, const NameThere& there, const std::string& value, const ValueFits& fits) {
  word.erase(0, std::min(word.find_first_not_of('-'), word.size()));
  std::replace(word.begin(), word.end(), '-', '_');
  if (word == "c" && !value.empty() && value.find_first_not_of("0123456789") == std::string::npos)
    word = "ctx_size";  // of llama.cpp
  for (const OtherName& n : kOtherNames) {
    if (word != n.word) continue;
    const std::string here = n.here;
    const std::string name = here.substr(0, here.find_first_of(" =,"));
    if (!there(name)) continue;
    const bool fixed = here.starts_with(name + "=");
    if (fixed && is_one_of(value, kNo)) return "leave it out: it is not so unless " + here + " asks for it";
    if (name != here || value.empty()) return "here it is " + here;
    for (const OtherValue& v : kOtherValues)
      if (name == v.name && is_one_of(value, v.words))
        return v.here[0] ? fmt::format("here it is {}={}", name, v.here) : v.advice;
    const std::string type = other_type_name(value), same = type.empty() || !fits || fits(name, value) ? value : type;
    if (fits && !fits(name, same))
      return fmt::format("here it is {}, and '{}' is not among its values: see `ravine config --explain {}`", name, value,
                         name);
    return "here it is " + here + (name[0] == '-' ? " " : "=") + shell_word(same);
  }
  for (const Missing& m : kMissing)
    if (word == m.word) return m.advice;
  return "";
}

std::string other_command_advice(const std::string& word) {
  for (const OtherCommand& c : kOtherCommands)
    if (word.find(' ') == std::string::npos && std::string_view(c.words).find(" " + word + " ") != std::string_view::npos)
      return c.advice;
  return "";
}

std::string other_value_advice(const std::string& option, const std::string& value) {
  for (const OtherValue& v : kOtherValues)
    if (option == v.name && is_one_of(value, v.words)) return v.here[0] ? std::string("here it is ") + v.here : v.advice;
  return "";
}

std::string other_type_name(const std::string& word) {
  for (const OtherName& n : kOtherTypes)
    if (word == n.word) return n.here;
  return "";
}

}  // namespace ravine

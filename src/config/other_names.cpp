#include "config/other_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/shell_word.h"
#include "config/word_list.h"

namespace ravine {
namespace {

struct OtherName {
  const char* words;  // separated by blanks, with underscores for dashes
  const char* here;   // begins with the option or flag. The first row whose option is taken applies
};

// Names of features that do not exist here, with the advice.
struct Missing {
  const char* words;
  const char* advice;
};

constexpr const char* kFourBits =
    "beside an adapter (lora.rank=8 of train, --adapter of generate) lora.base=nf4 keeps the base in 4 bits; elsewhere leave it out";

constexpr Missing kMissing[] = {
    {" lora ", "adapters are trained by `ravine train`, and read by generate, trace and convert: leave it out"},
    {" adapter ", "it takes no adapter: make one model of both with `ravine merge-lora`"},
    {" device device_map gpu cuda n_gpu_layers ngl use_cpu ", "it computes on the CPU: leave it out"},
    {" gpus ", "it computes on the CPU: leave it out; ranks are the number behind mpirun -n"},
    {" load_in_8bit ", "weights are not quantised here: leave it out; precision.compute=bf16 halves them"},
    {" load_in_4bit quantization_bit lora.quantization ", kFourBits},
    {" deepspeed deepspeed_config ", "leave it out: parallel.zero=1 to 3 divides what DeepSpeed's stages do"},
    {" fsdp fsdp_config ", "leave it out: parallel.zero=3 divides weights, gradients and moments"},
    {" nproc_per_node num_processes num_gpus ", "ranks are the number behind mpirun -n"},
    {" flash_attn ", "leave it out: attention is always fused"},
    {" do_train lora.task_type run_mode trainer ", "leave it out: the command says what is done"},
    {" do_eval ", "leave it out: set train.valid_every and data.valid"},
    {" overwrite_output_dir ", "leave it out: choose another train.output, or remove what the earlier run has left there"},
    {" stream ", "leave it out: the text of one prompt comes as it is made"},
    {" dry_run ", "leave it out: `ravine plan` shows memory and time of such a run, `ravine config` its options"},
    {" verbose ", "leave it out: log.every says how often a line comes"},
    {" quiet ", "leave it out: a larger log.every gives fewer lines"},
    {" stage ",
     "leave it out: what the files hold decides, text or conversations; train.objective=dpo learns from pairs of answers"},
    {" finetuning_type ", "leave it out: lora.rank=8 trains an adapter, 0 all weights, train.freeze leaves some"},
    {" lora.use_dora ", "leave it out: there is no DoRA here, lora.rslora is another thing"},
    {" use_dora ", "leave it out: there is no DoRA here"},
    {" lora.bias ", "leave it out: biases are not trained beside adapters; train.freeze leaves them out of other runs"},
    {" lora.init_lora_weights init_lora_weights ", "leave it out: A is drawn, B is 0"},
    {" context_parallel_size parallel.cp ",
     "leave it out: a sequence is not cut over ranks; parallel.sequence cuts what tensor ranks share"},
    {" num_query_groups group_query_attention ", "leave it out: config.json says it (num_key_value_heads)"},
    {" swiglu ", "leave it out: config.json says it (hidden_act)"},
    {" num_experts moe.num_experts ",
     "leave it out: config.json says it (num_local_experts, num_experts or n_routed_experts, by family)"},
    {" moe_router_topk moe.topk ", "leave it out: config.json says it (num_experts_per_tok)"},
    {" moe_grouped_gemm ", "leave it out: experts are multiplied as groups"},
    {" moe_token_dispatcher_type ", "leave it out: there is one"},
    {" dpo.max_prompt_length ", "leave it out: data.sequence_length holds question and answer"},
    {" dpo.reference_free ", "leave it out: what it is compared with is the model as the run begins, or dpo.reference"},
    {" overwrite_cache ", "leave it out: tokens are made again where files or options differ"},
    {" dataset_info dataset_dir ", "leave it out: data.train names the files"},
    {" max_samples ", "leave it out: train.steps says how much is read"},
    {" plot_loss ", "leave it out: `ravine plot` draws the curves of a run"},
    {" eval_strategy evaluation_strategy ", "leave it out: train.valid_every says how often"},
    {" save_strategy ", "leave it out: checkpoint.every says how often"},
    {" compute_environment use_parallel ", "leave it out: ranks are the number behind mpirun -n"},
    {" distributed_type ", "leave it out: ranks are the number behind mpirun -n, parallel.zero=1 to 3 divides what they hold"},
    {" num_machines ", "leave it out: ranks are the number behind mpirun -n, their hosts behind --host"},
    {" machine_rank main_process_ip main_process_port rdzv_backend ", "leave it out: mpirun starts the ranks of all hosts"},
    {" main_training_function ", "leave it out: `ravine train` is the program"},
    {" same_network ", "leave it out: parallel.interface names a network"},
    {" downcast_bf16 ", "leave it out: precision.compute=bf16 says it"},
    {" loader ", "leave it out: the layout of the input is recognised, --from names it where it is not"},
    {" tokenizer_type ", "leave it out: the tokenizer's files tell"},
    {" finetune no_load_optim no_load_rng ",
     "leave it out: model.path begins with the weights of a model, and with nothing else of it"},
    {" continue resume_training ", "leave it out: the same command goes on from the newest checkpoint of its train.output"},
    {" callbacks ", "leave it out: log.every and checkpoint.every say how often lines and checkpoints come"},
    {" ctx_size n_ctx ", "leave it out: the model's max_position_embeddings is the limit"},
};

// Names in Transformers, TRL, Megatron, llama.cpp and others.
constexpr OtherName kOtherNames[] = {
    {" lora use_lora use_peft ", "lora.rank=8, which trains adapters"},
    {" lora.r lora_rank ", "lora.rank"},
    {" lora.target_modules lora_target ", "lora.targets"},
    {" lora_dropout ", "lora.dropout"},
    {" modules_to_save additional_target ", "lora.save"},
    {" adapter_name_or_path adapter ", "lora.path"},
    {" use_rslora ", "lora.rslora"},
    {" resize_vocab ", "model.vocabulary=-1"},
    {" pad_vocab_size_to padded_vocab_size ", "model.vocabulary"},
    {" make_vocab_size_divisible_by ", "model.vocabulary, the number of rows itself"},
    {" untie_embeddings_and_output_weights ", "model.tie=untied"},
    {" tie_word_embeddings ", "model.tie"},
    {" model model_path base_model load_checkpoint base m ", "--model"},
    {" model.name model.name_or_path model.dir model model_path base_model model_name load_checkpoint ", "model.path"},
    {" valid_data eval_file val_data ", "data.valid"},
    {" lr_scheduler scheduler lr_decay_style ", "schedule.type"},
    {" warmup num_warmup_steps lr_warmup_iters ", "schedule.warmup_steps"},
    {" grad_clip ", "optimizer.clip_norm"},
    {" beta1 beta2 adam_beta1 adam_beta2 ", "optimizer.betas, as [0.9, 0.95]"},
    {" grad_accum gradient_accumulation gradient_accumulation_steps micro_batch_num ",
     "train.global_batch (sequences of a step; train.micro_batch of them at a time)"},
    {" iters max_iters num_steps ", "train.steps"},
    {" epoch num_train_epochs epochs num_epochs ", "train.epochs"},
    {" out o output_dir output_path ", "--output"},
    {" o output ", "--out"},
    {" o output ", "--output-prefix"},
    {" out_dir out o output ", "train.output"},
    {" input file prompt_file f ", "--prompts"},
    {" data.path data.file data.files data.dataset data dataset train_data train_path input train_dataset_dir ", "data.train"},
    {" i interactive cnv conversation ", "--chat (a conversation)"},
    {" file files i ", "--input"},
    {" val_size ", "data.valid_fraction"},
    {" packing ", "data.pack"},
    {" zero_optimization ", "parallel.zero (1 to 3, as its stage)"},
    {" optimizer.params ", "optimizer.lr, optimizer.betas, optimizer.eps and optimizer.weight_decay"},
    {" seq_length ", "--sequence-length"},
    {" resume ", "checkpoint.resume"},
    {" precision mixed_precision torch_dtype dtype precision.type precision.dtype ", "precision.compute"},
    {" tp tensor_parallel ", "--tensor"},
    {" tp tensor_parallel parallel.model_parallel tensor_parallel_size ", "parallel.tensor"},
    {" pp pipeline_parallel ", "--pipeline"},
    {" pp pipeline_parallel parallel.pipeline_stage ", "parallel.pipeline"},
    {" ep parallel.expert_parallel parallel.ep ", "parallel.expert"},
    {" dp parallel.data_parallel ", "parallel.data"},
    {" zero ", "parallel.zero"},
    {" max_length max_tokens length n n_predict ", "--max-new-tokens"},
    {" cutoff_len seq_len context_length max_length max_seq_length ", "data.sequence_length"},
    {" num_return_sequences ", "--num-return"},
    {" repeat_penalty rep_pen ", "--repetition-penalty"},
    {" batch_size b ", "--batch"},
    {" s ", "--seed"},
    {" v ", "--version (as `ravine --version`)"},
    {" cfg c ", "--config"},
    {" tokenizer_path ", "--tokenizer"},
    {" tokenizer_path tokenizer ", "model.tokenizer"},
    {" vocab_size vocabulary ", "--vocab-size"},
    {" model_type ", "--type"},
    {" format target ", "--to"},
    {" schedule.base_lr ", "optimizer.lr"},
    {" schedule.params ", "schedule.warmup_num_steps and the like: what DeepSpeed has in params stands in the section itself"},
    {" initial_scale_power ", "precision.scale_initial, 2 to that power: 65536 for 16"},
    {" init_loss_scale ", "precision.scale_initial"},
    {" loss_scale_factor ", "precision.scale_factor"},
    {" min_lr ", "schedule.min_lr_ratio (a share of optimizer.lr)"},
    {" optimizer ", "optimizer.type"},
    {" warmup_ratio lr_warmup_fraction ", "schedule.warmup_ratio"},
    {" batch_size ", "train.global_batch (sequences of a step) and train.micro_batch (at a time)"},
    {" load ", "checkpoint.resume, or model.path for a model folder"},
    {" dataset_name ", "data.train (files: ravine reads no hub)"},
    {" bf16 ", "precision.compute=bf16"},
    {" fp16 ", "precision.compute=f16"},
    {" tf32 ", "precision.compute=f32"},
    {" gradient_checkpointing ", "train.recompute=full"},
    {" recompute_granularity recompute_config ", "train.recompute"},
    {" num_layers ", "model.config, a file config.json with num_hidden_layers"},
    {" hidden_size ", "model.config, a file config.json with hidden_size"},
    {" ffn_hidden_size ", "model.config, a file config.json with intermediate_size"},
    {" num_attention_heads ", "model.config, a file config.json with num_attention_heads"},
    {" max_position_embeddings ", "model.config, a file config.json with max_position_embeddings"},
    {" vocab_file merge_file ", "--tokenizer, the folder of the tokenizer's files"},
    {" vocab_file merge_file ", "model.tokenizer, the folder of the tokenizer's files"},
    {" lr_decay_iters ", "schedule.steps"},
    {" train_dataset ", "data.train, a list of files"},
    {" eval_dataset ", "data.valid, a list of files"},
    {" runner_config ", "train.epochs, and train.micro_batch for its batch_size"},
    {" lr_schedule ", "schedule.type and schedule.warmup_steps; its learning_rate is optimizer.lr"},
    {" parallel_config ", "parallel.data, parallel.tensor (model_parallel) and parallel.pipeline (pipeline_stage)"},
    {" model_config ", "model.config, a file config.json"},
    {" use_distributed_optimizer ", "parallel.zero=1"},
    {" router_aux_loss_coef moe.router_aux_loss_coef ", "moe.aux_loss"},
    {" moe.z_loss_coeff ", "moe.z_loss"},
    {" moe_router_load_balancing_type ", "moe.load_balance"},
    {" moe_expert_capacity_factor moe.capacity ", "moe.capacity_factor"},
    {" moe_token_drop_policy moe.token_drop_policy ", "moe.drop"},
    {" moe_pad_expert_input_to_capacity ", "moe.pad_to_capacity"},
    {" eval_iters ", "train.valid_batches"},
    {" lora_path lora peft ", "--adapter"},
    {" tensorboard_dir ", "log.tensorboard, which writes to train.output/tensorboard"},
    {" p ", "--prompt"},
    {" temp ", "--temperature"},
    {" num_beams ", "--beams"},
    {" do_sample ", "--sample (a switch)"},
    {" stop_strings stop_sequences ", "--stop"},
    {" min_p ", "--min-p"},
    {" typical typical_p ", "--typical-p"},
    {" t num_threads ", "--threads"},
    {" threads num_threads num_proc jobs j ", "--workers"},
    {" text_column text_field ", "--text-key"},
    {" text_key text_column ", "--json-keys"},
    {" text_column text_field ", "data.text_key"},
    {" chat_template template ", "--template"},
    {" chat_template template ", "data.chat_template"},
    {" pref_beta dpo_beta ", "dpo.beta"},
    {" pref_loss dpo_loss_type loss_type ", "dpo.loss"},
    {" dpo_label_smoothing ", "dpo.label_smoothing"},
    {" pref_ftx dpo_ftx rpo_alpha ", "dpo.ftx"},
    {" ref_model ", "dpo.reference"},
};

constexpr std::string_view kNo = " false no off 0 none ", kHere = "here it is ";

std::string name_of(const std::string& here) { return here.substr(0, here.find_first_of(" =,")); }

// Returns the advice of a row: "optimizer.lr", "lora.rank=8, which trains adapters".
std::string in_words(const std::string& here, const std::string& value, const ValueFits& fits) {
  const std::string name = name_of(here);
  const bool fixed = here.starts_with(name + "=");
  if (fixed && stands_among(value, kNo)) return "leave it out: it is not so unless " + here + " asks for it";
  if (value.empty() && name == here)  // a flag without a value means yes
    if (const std::string suggestion = other_value_advice(name, "yes"); !suggestion.empty() && !suggestion.starts_with(kHere))
      return suggestion;
  if (name != here || value.empty()) return "here it is " + here;
  if (const std::string suggestion = other_value_advice(name, value); !suggestion.empty())
    return suggestion.starts_with(kHere) ? fmt::format("{}{}={}", kHere, name, suggestion.substr(kHere.size())) : suggestion;
  const std::string type = other_type_name(value), same = type.empty() || !fits || fits(name, value) ? value : type;
  if (fits && !fits(name, same))
    return fmt::format("here it is {}, and '{}' is not among its values: see `ravine config --explain {}`", name, value, name);
  return "here it is " + here + (name[0] == '-' ? " " : "=") + shell_word(same);
}

}  // namespace

std::string other_name_advice(std::string word, const NameThere& there, const std::string& value, const ValueFits& fits,
                              const ForeignWords& words) {
  word.erase(0, std::min(word.find_first_not_of('-'), word.size()));
  std::replace(word.begin(), word.end(), '-', '_');
  if (word == "c" && !value.empty() && value.find_first_not_of("0123456789") == std::string::npos)
    word = "ctx_size";  // the name in llama.cpp
  for (const OtherName& n : kOtherNames)
    if (const std::string here = n.here; stands_in(word, n.words) && there(name_of(here))) return in_words(here, value, fits);
  for (const Missing& m : kMissing)
    if (stands_in(word, m.words)) return m.advice;
  const std::vector<ForeignWord> known = words ? words(word) : std::vector<ForeignWord>();
  for (const ForeignWord& w : known)
    if (!w.option.empty() && there(w.option))
      return (w.same ? in_words(w.option, value, fits) : std::string(kHere) + w.option) + w.condition;
  for (const ForeignWord& w : known)
    if (!w.advice.empty()) return w.advice;
  return "";
}

}  // namespace ravine

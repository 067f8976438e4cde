#include "config/other_names.h"
#include "config/word_list.h"

namespace ravine {
namespace {

struct OtherValue {
  const char* name;   // name of Ravine's option
  const char* words;  // separated by blanks, in lower case
  const char* here;   // value of Ravine's option; empty: there is only the advice
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
    {"lora.targets", " all ", "all-linear", ""},
    {"lora.base", " 4bit 4 fp4 int4 nf4bit q4 ", "nf4", ""},
    {"lora.base", " 8bit 8 int8 ", "", "blocks of 8 bits are not there: nf4 keeps the base in 4, bf16 in 16"},
    {"lora.base", " none no ", "", "leave it out: the base is kept in the type of its files"},
    {"moe.load_balance", " aux_loss ", "aux", ""},
    {"moe.load_balance", " seq_aux_loss ", "seq_aux", ""},
    {"dpo.loss", " dpo ", "sigmoid", ""},
    {"--to", " mcore megatron-core megatron_core mg ", "megatron-mcore", ""},
    {"--to", " huggingface hugging-face hugging_face transformers safetensors ", "hf", ""},
    {"--to", " megatron_legacy legacy ", "megatron-legacy", ""},
    {"--to", " mindspore ckpt ", "mindformers", ""},
    {"--to", " gguf ggml ", "", "GGUF is not written: --to hf makes a folder that the converter of llama.cpp reads"},
    {"--from", " mcore megatron-core megatron_core mg ", "megatron", ""},
    {"--from", " huggingface hugging-face hugging_face transformers llama llama2 safetensors ", "hf", ""},
    {"train.recompute", " selective ", "cheap", ""},
    {"train.recompute", " no false off 0 ", "none", ""},
    {"train.recompute", " yes true on 1 block uniform ", "full", ""},
};

struct OtherType {
  const char *word, *here;
};

constexpr OtherType kOtherTypes[] = {
    {"fp32", "f32"},    {"float32", "f32"}, {"float", "f32"},     {"single", "f32"},      {"fp16", "f16"},
    {"float16", "f16"}, {"half", "f16"},    {"bfloat16", "bf16"}, {"fp64", "f64"},        {"float64", "f64"},
    {"double", "f64"},  {"32", "f32"},      {"16-mixed", "f16"},  {"bf16-mixed", "bf16"},
};

}  // namespace

std::string other_value_advice(const std::string& option, const std::string& value) {
  for (const OtherValue& v : kOtherValues)
    if (option == v.name && stands_among(value, v.words)) return v.here[0] ? std::string("here it is ") + v.here : v.advice;
  return "";
}

std::string other_type_name(const std::string& word) {
  for (const OtherType& n : kOtherTypes)
    if (word == n.word) return n.here;
  return "";
}

}  // namespace ravine

#include "config/other_names.h"
#include "config/word_list.h"

namespace ravine {
namespace {

struct OtherCommand {
  const char* words;  // separated by blanks
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
    {" server api ", "use `ravine serve --model DIR`"},
    {" talk conversation repl ",
     "use `ravine chat --model DIR`: each line is a turn; `ravine generate --chat --prompt TEXT` answers once"},
    {" evaluate lm_eval benchmark ", "use `ravine eval --tasks boolq,mmlu --data DIR`; `ravine bench` measures the speed"},
    {" run infer inference predict complete completions sample prompt ask ", "use `ravine generate --model DIR --prompt TEXT`"},
    {" quantize quantise gguf ", "there is no quantisation; `ravine convert --to hf --dtype bf16` halves a model in f32"},
    {" download pull clone fetch ", "nothing is fetched here; `hf download NAME --local-dir DIR` brings a model"},
    {" launch torchrun mpirun accelerate deepspeed ", "several ranks are `mpirun -n N ravine train ..`"},
    {" merge merge_lora merge-adapter merge_adapter merge_and_unload ",
     "use `ravine merge-lora --model BASE --adapter ADAPTER --output DIR` for one model of both; token files are joined by `ravine data merge`"},
    {" export save ",
     "use `ravine convert --input RUN --output DIR --to hf`; an adapter and its base become one model by `ravine merge-lora`"},
    {" tokenize encode decode ", "use `ravine tokenizer encode` and `ravine tokenizer decode`"},
    {" prepare prepare-data preprocess_data preprocess_data.py ",
     "use `ravine preprocess --input FILE --tokenizer DIR --output-prefix PREFIX`"},
    {" tensorboard visualize graph ", "use `ravine plot RUN`; TensorBoard reads RUN/tensorboard"},
    {" status logs log list ls show describe inspect ", "use `ravine info PATH`; the log of a run is RUN/log.txt"},
    {" new create setup start quickstart scaffold ", "use `ravine init DIR`"},
    {" kill cancel abort pause ", "use `ravine stop RUN`"},
    {" options settings explain ", "use `ravine config --list`, or `ravine config --explain train.steps`"},
    {" compare ", "use `ravine diff A B`"},
    {" test selftest doctor verify ", "use `ravine check determinism --config run.yaml`"},
};

}  // namespace

std::string other_command_advice(const std::string& word) {
  for (const OtherCommand& c : kOtherCommands)
    if (stands_among(word, c.words)) return c.advice;
  return "";
}

}  // namespace ravine

#include "dialects/megatron.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "dialects/key_page.h"
#include "dialects/megatron_programs.h"
#include "dialects/megatron_run.h"

namespace ravine {
namespace {

Translation translate_training(const std::vector<PlacedWord>& words, const MegatronJob& job, MegatronAge age) {
  const DialectTable table = megatron_training_table(age);
  Translation t = translate(table, read_flags(table, words, "megatron"), "megatron");
  t.ranks = job.ranks;
  const MegatronSizes sizes = megatron_sizes(t, job);
  refuse_megatron_conflicts(t, sizes, job, age);
  set_megatron_run(t, sizes, job, age);
  return t;
}

}  // namespace

std::vector<KeySection> megatron_key_sections() {
  const MegatronAge age = MegatronAge::core;  // the classic programs have the same keys
  return {{"The network", megatron_network_rows(age)},
          {"Training", megatron_training_rows(age)},
          {"Ranks and memory", megatron_layout_rows()},
          {"Data and files", megatron_files_rows()},
          {"Of ModelLink since 2024", megatron_recent_rows()},
          {"`evaluation*.py`, beside those of training", megatron_evaluation_rows()},
          {"`inference*.py`, beside those of training", megatron_inference_rows()},
          {"`preprocess_data.py`", megatron_preprocess_table()},
          {"`convert_weights_*.py`, `convert_ckpt.py`, `util.py`", megatron_conversion_table()},
          {"`merge_lora.py`, beside those of training", megatron_merge_rows()}};
}

Translation translate_megatron(const std::vector<PlacedWord>& words, const MegatronJob& job) {
  const std::string& name = job.program;
  if (name.empty() || name == "pretrain_gpt.py" || name == "finetune_sft.py" || name == "finetune_gpt.py")
    return translate_training(words, job, MegatronAge::core);
  for (const char* classic : {"pretrain_llama.py", "pretrain_baichuan.py", "pretrain_bloom.py", "pretrain_intern.py",
                              "pretrain_internlm.py", "pretrain_aquila.py"})
    if (name == classic) return translate_training(words, job, MegatronAge::classic);
  if (name.starts_with("pretrain_")) return translate_training(words, job, MegatronAge::core);
  if (name.starts_with("evaluation")) return translate_evaluation(words, job);
  if (name.starts_with("inference")) return translate_inference(words, job);
  if (name == "preprocess_data.py") return translate_preprocessing(words, job);
  if (name.starts_with("convert_weights") || name == "convert_ckpt.py" || name == "util.py")
    return translate_conversion(words, job);
  if (name == "merge_lora.py") return translate_merge(words, job);
  throw UserError(
      fmt::format("program {}", name), "launch script",
      "known are pretrain_*.py, finetune_*.py, evaluation*.py, inference*.py, preprocess_data.py, convert_weights_*.py, "
      "convert_ckpt.py, util.py and merge_lora.py",
      "name a script that launches one of them");
}

}  // namespace ravine

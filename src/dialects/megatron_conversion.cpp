// convert_weights_*.py, convert_ckpt.py, util.py and merge_lora.py: weights from one layout into another.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "dialects/megatron_programs.h"
#include "dialects/megatron_run.h"

namespace ravine {

using enum KeyType;
namespace fs = std::filesystem;

DialectTable megatron_conversion_table() {
  const char* said = "the config.json of the input says it";
  return {
      renamed("--input-model-dir", text, "--input"),
      renamed("--output-model-dir", text, "--output"),
      renamed("--load-dir", text, "--input"),
      renamed("--save-dir", text, "--output"),
      renamed("--tensor-model-parallel-size", whole, "--tensor", 1),
      renamed("--pipeline-model-parallel-size", whole, "--pipeline", 1),
      renamed("--tgt-tensor-model-parallel-size", whole, "--tensor"),
      renamed("--tgt-pipeline-model-parallel-size", whole, "--pipeline"),
      renamed("--target-tensor-parallel-size", whole, "--tensor"),
      renamed("--target-pipeline-parallel-size", whole, "--pipeline"),
      inert("--src-tensor-model-parallel-size", whole, "the input is recognised"),
      inert("--src-pipeline-model-parallel-size", whole, "the input is recognised"),
      used("--deepspeed", on, "--to"),
      used("--loader", text, "--from"),
      used("--saver", text, "--to", "megatron"),
      used("--save-model-type", text, "--to", "megatron"),
      inert("--type", text, said),
      inert("--num_layers", whole, said),
      inert("--num-layers", whole, said),
      inert("--hidden_size", whole, said),
      inert("--hidden-size", whole, said),
      inert("--num_heads", whole, said),
      inert("--num-heads", whole, said),
      inert("--num_kv_heads", whole, said),
      inert("--num-kv-heads", whole, said),
      inert("--bias", on, said),
      inert("--add-qkv-bias", on, said),
      inert("--add-dense-bias", on, said),
      inert("--embed-layernorm", on, said),
      inert("--pse", on, "a fused matrix of q, k and v is recognised"),
      inert("--w-pack", text, "a fused matrix of q, k and v is recognised"),
      inert("--use_wpack_rotray", on, "nobody reads it there either"),
      inert("--merge-mlp", on, "gate and up are stored as the layout has them"),
      inert("--load_weight_map", on, "files and their index are recognised"),
      inert("--make-vocab-size-divisible-by", whole, "rows of padding are written for the ranks as they need them"),
      inert("--added-token-num", whole, said),
      inert("--orig-vocab-size", whole, said),
      inert("--true-vocab-size", whole, said),
      inert("--vocab-file", text, "the tokenizer's files are copied"),
      inert("--tokenizer-model", text, "the tokenizer's files are copied"),
      inert("--megatron-path", text, "no code of it is run"),
      inert("--model-type", text, "the input is recognised"),
      used("--load-model-type", text, "--from", nullptr, {"hf", "mg"}),
      used("--use-mcore-models", on, "--to"),
      inert("--model-type-hf", text, "the input is recognised"),
      inert("--target-expert-parallel-size", whole, "experts are written whole in each rank's file, and cut as they are read"),
      inert("--expert-model-parallel-size", whole, "experts are written whole in each rank's file, and cut as they are read"),
      inert("--moe-grouped-gemm", on, "experts are told apart by their names"),
      inert("--post-norm", on, said),
      inert("--qk-layernorm", on, said),
      inert("--num-layer-list", text, "stages have equal numbers of layers in the folders that are written"),
      renamed("--lora-load", text, "--adapter"),
      inert("--lora-r", whole, "the adapter says it"),
      inert("--lora-alpha", number, "the adapter says it"),
      inert("--lora-target-modules", texts, "the adapter says it"),
      inert("--max-queue-size", whole, "one process reads and writes"),
      inert("--no-checking", on, "one process reads and writes"),
      used("--params-dtype", text, "--dtype", nullptr, {"fp16", "bf16", "fp32"}),
      refused("--partition-layers", text, "stages have equal numbers of layers in the folders that are written"),
  };
}

namespace {

// The first of these that is given, as a word; "": none.
std::string first_of(const Translation& t, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (t.has(key)) return t.value(key).is_string() ? t.text(key) : std::to_string(t.whole(key));
  return "";
}

// The layout that a word of --loader or --saver names, "llama2_hf" or "loader_megatron": "hf" or "megatron". Others are refused.
std::string layout_of_plugin(Translation& t, const char* key) {
  if (!t.has(key)) return "";
  const std::string name = t.text(key);
  const auto holds = [&](const char* word) { return name.find(word) != std::string::npos; };
  if (name == "hf" || name.ends_with("_hf") || name.starts_with("hf_") || holds("huggingface")) return "hf";
  if (holds("megatron") || name == "mg" || name.ends_with("_mg") || name.starts_with("mg_")) return "megatron";
  t.refuse(key, fmt::format("{} {}", key, name), "unable to load this plugin",
           "write megatron, or the one of the family: llama2_hf, bloom_hf, qwen_hf, mixtral_hf");
  return "";
}

// Since 2024 a switch says it; experts have names in megatron-core alone.
bool has_core_names(const Translation& t, const std::string& program) {
  if (t.is_on("--use-mcore-models")) return true;
  if (t.has("--load-model-type")) return false;
  for (const char* key : {"--loader", "--saver"})
    for (const char* word : {"mixtral", "mcore"})
      if (t.has(key) && t.text(key).find(word) != std::string::npos) return true;
  return program == "convert_ckpt.py";
}

using Keys = std::initializer_list<const char*>;

// Sizes of the folders of ranks; a Hugging Face folder has none.
void add_sizes(Translation& t, bool hf, Keys tensor, Keys pipeline) {
  for (const auto& [flag, keys] : {std::pair{"--tensor", tensor}, {"--pipeline", pipeline}})
    for (const char* key : keys) {
      if (!t.has(key)) continue;
      const int64_t n = t.whole(key);
      const bool stages = t.is_on("--deepspeed") && std::string_view(flag) == "--pipeline";
      if ((hf || stages) && n != 1)
        t.refuse(
            key, fmt::format("{} {}", key, n),
            hf ? "weights of Hugging Face are written with one tensor rank and one stage" : "files of DeepSpeed have no stages",
            "write 1, or leave it out");
      else if (!hf && !stages)
        t.command.insert(t.command.end(), {flag, std::to_string(n)});
      break;
    }
}

}  // namespace

Translation translate_conversion(const std::vector<PlacedWord>& words, const MegatronJob& job) {
  const DialectTable table = megatron_conversion_table();
  Translation t = translate(table, read_flags(table, words, job.program), job.program);
  t.ranks = 1;
  const std::string input = first_of(t, {"--input-model-dir", "--load-dir"}),
                    output = first_of(t, {"--output-model-dir", "--save-dir"});
  if (input.empty())
    t.refuse("--input-model-dir", "--input-model-dir is not given", "it is what is converted", "name the folder");
  if (output.empty())
    t.refuse("--output-model-dir", "--output-model-dir is not given", "a folder is written", "name the folder");
  const std::string kind = t.text("--save-model-type");
  const bool hf = kind == "hf" || kind.find("huggingface") != std::string::npos || layout_of_plugin(t, "--saver") == "hf";
  // Weights of Hugging Face go into a folder of the one that has the original's config.json.
  const std::string target = hf ? (fs::path(output) / "mg2hg").string() : output,
                    to = hf                               ? "hf"
                         : t.is_on("--deepspeed")         ? "megatron-deepspeed"
                         : has_core_names(t, job.program) ? "megatron-mcore"
                                                          : "megatron-legacy";
  t.command = {"convert", "--input", input, "--output", target, "--to", to};
  std::string from = layout_of_plugin(t, "--loader");
  if (t.has("--load-model-type")) from = t.text("--load-model-type") == "hf" ? "hf" : "megatron";
  std::error_code error;
  if (const fs::path config = fs::path(output) / "config.json"; hf && fs::is_regular_file(config, error))
    t.command.insert(t.command.end(), {"--model-config", config.string()});
  add_sizes(t, hf, {"--tensor-model-parallel-size", "--tgt-tensor-model-parallel-size", "--target-tensor-parallel-size"},
            {"--pipeline-model-parallel-size", "--tgt-pipeline-model-parallel-size", "--target-pipeline-parallel-size"});
  if (!from.empty()) t.command.insert(t.command.end(), {"--from", from});
  if (t.has("--lora-load")) t.command.insert(t.command.end(), {"--adapter", t.text("--lora-load")});
  hold_megatron_adapter(t);
  if (t.has("--params-dtype")) {
    const std::string type = t.text("--params-dtype");
    t.command.insert(t.command.end(), {"--dtype", type == "fp16" ? "f16" : type == "fp32" ? "f32" : "bf16"});
  }
  return t;
}

DialectTable megatron_merge_rows() {
  return {
      renamed("--load", text, "--model"),
      renamed("--lora-load", text, "--adapter"),
      renamed("--save", text, "--output"),
      renamed("--tensor-model-parallel-size", whole, "--tensor", 1),
      renamed("--pipeline-model-parallel-size", whole, "--pipeline", 1),
      used("--use-mcore-models", on, "--to"),
      inert("--lora-r", whole, "the adapter says it"),
      inert("--lora-alpha", number, "the adapter says it"),
      inert("--lora-target-modules", texts, "the adapter says it"),
      inert("--lora-modules-to-save", texts, "the adapter says it"),
      inert("--fp16", on, "weights keep the type of the base"),
      inert("--bf16", on, "weights keep the type of the base"),
      inert("--tokenizer-type", text, "the tokenizer's files are copied"),
      inert("--tokenizer-name-or-path", text, "the tokenizer's files are copied"),
      inert("--tokenizer-model", text, "the tokenizer's files are copied"),
      used("--deepspeed", on, "--to"),
      inert("--row-col-parallel-linear-bias", on, "the config.json of the model says it"),
  };
}

// merge_lora.py: of folders of ranks the merged weights are such, of a Hugging Face folder one.
Translation translate_merge(const std::vector<PlacedWord>& words, const MegatronJob& job) {
  const DialectTable table = megatron_running_table(megatron_merge_rows());
  Translation t = translate(table, read_flags(table, words, job.program), job.program);
  t.ranks = 1;
  for (const auto& [key, what] :
       {std::pair{"--load", "the model"}, {"--lora-load", "the adapter"}, {"--save", "the new model"}})
    if (!t.has(key)) t.refuse(key, fmt::format("{} is not given", key), fmt::format("it is {}", what), "name the folder");
  hold_megatron_adapter(t);
  hold_megatron_sizes(t);
  std::error_code error;
  const bool huggingface =
      fs::exists(fs::path(t.text("--load")) / "config.json", error) && !holds_megatron_ranks(t.text("--load"));
  if (huggingface) {
    t.command = {"merge-lora", "--model", t.text("--load"), "--adapter", t.text("--lora-load"), "--output", t.text("--save")};
    for (const char* key : {"--tensor-model-parallel-size", "--pipeline-model-parallel-size"})
      if (t.has(key)) t.becomes(key, KeyStatus::inert, "--load is a Hugging Face folder, and so is the merged one");
    return t;
  }
  const char* to = t.is_on("--deepspeed")          ? "megatron-deepspeed"
                   : t.is_on("--use-mcore-models") ? "megatron-mcore"
                                                   : "megatron-legacy";
  t.command = {"convert",  "--input",        t.text("--load"), "--adapter", t.text("--lora-load"),
               "--output", t.text("--save"), "--to",           to};
  add_sizes(t, false, {"--tensor-model-parallel-size"}, {"--pipeline-model-parallel-size"});
  return t;
}

}  // namespace ravine

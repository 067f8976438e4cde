// Translates convert_weights_*.py, convert_ckpt.py, util.py and merge_lora.py, which convert weights to another layout.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "dialects/megatron_held.h"
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
      inert(
          "--merge-mlp", on,
          "gate and up are written as one dense_h_to_4h with it or without, as ModelLink has them since 2024; all forms are read"),
      inert("--load_weight_map", on, "files and their index are recognised"),
      used("--make-vocab-size-divisible-by", whole, "--vocab-multiple"),
      inert("--added-token-num", whole, "0 adds no rows"),
      inert("--orig-vocab-size", whole, said),
      inert("--true-vocab-size", whole, said),
      inert("--vocab-file", text, "the tokenizer's files are copied"),
      inert("--tokenizer-model", text, "the tokenizer's files are copied"),
      inert("--megatron-path", text, "no code of it is run"),
      inert("--model-type", text, "the input is recognised"),
      used("--load-model-type", text, "--from", nullptr, {"hf", "mg"}),
      used("--use-mcore-models", on, "--to"),
      inert("--model-type-hf", text, "the input is recognised"),
      inert("--target-expert-parallel-size", whole, "1 is what is written"),
      inert("--expert-model-parallel-size", whole, "1 is what is written"),
      used("--moe-grouped-gemm", on, "--experts"),
      inert("--post-norm", on, said),
      inert("--qk-layernorm", on, said),
      used("--num-layer-list", text, "--stage-layers"),
      renamed("--lora-load", text, "--adapter"),
      inert("--lora-r", whole, "the adapter says it"),
      inert("--lora-alpha", number, "the adapter says it"),
      inert("--lora-target-modules", texts, "the adapter says it"),
      inert("--max-queue-size", whole, "one process reads and writes"),
      inert("--no-checking", on,
            "it skips a check that messages from loader to saver have the expected names and no other fields; here are none"),
      used("--params-dtype", text, "--dtype", nullptr, {"fp16", "bf16", "fp32"}),
      used("--partition-layers", text, "--stage-layers"),
  };
}

namespace {

// Returns the value of the first given key, as a word; "" if none is given.
std::string first_of(const Translation& t, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (t.has(key)) return t.value(key).is_string() ? t.text(key) : std::to_string(t.whole(key));
  return "";
}

// Returns the layout in --loader or --saver: "hf" for "llama2_hf", "megatron" for "loader_megatron". Refuses other
// words.
std::string layout_of_plugin(Translation& t, const char* key) {
  if (!t.has(key)) return "";
  const std::string name = t.text(key);
  const auto holds = [&](const char* word) { return name.find(word) != std::string::npos; };
  if (name == "hf" || name.ends_with("_hf") || name.starts_with("hf_") || holds("huggingface")) return "hf";
  const bool saver = std::string_view(key) == "--saver";  // of Mixtral's folders it has the family's name
  if (holds("megatron") || name == "mg" || name.ends_with("_mg") || name.starts_with("mg_") ||
      (saver && (name == "mixtral" || name == "saver_mixtral")))
    return "megatron";
  t.refuse(key, fmt::format("{} {}", key, name), "unable to load this plugin",
           "write megatron, or the one of the family: llama2_hf, bloom_hf, qwen_hf, mixtral_hf");
  return "";
}

// True for megatron-core's weight names: --use-mcore-models, a loader or saver for them, or convert_ckpt.py.
bool has_core_names(const Translation& t, const std::string& program) {
  if (t.is_on("--use-mcore-models")) return true;
  if (t.has("--load-model-type")) return false;
  for (const char* key : {"--loader", "--saver"})
    for (const char* word : {"mixtral", "mcore"})
      if (t.has(key) && t.text(key).find(word) != std::string::npos) return true;
  return program == "convert_ckpt.py";
}

using Keys = std::initializer_list<const char*>;

// Appends the numbers of tensor ranks and stages. A Hugging Face folder has none.
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

// Appends the layers of each stage. Their number is --pipeline.
void add_stage_layers(Translation& t, bool hf) {
  for (const char* key : {"--num-layer-list", "--partition-layers"}) {
    if (!t.has(key)) continue;
    const auto stages = std::find(t.command.begin(), t.command.end(), "--pipeline");
    const std::string count = stages == t.command.end() ? "1" : stages[1];
    bool numbers = true;
    const std::vector<std::string> words = split(t.text(key), ',');
    for (const std::string& word : words) {
      const YamlNode n = resolve_scalar(word);
      numbers = numbers && n.kind == YamlNode::Kind::integer && n.integer > 0;
    }
    if (hf || t.is_on("--deepspeed"))
      t.refuse(key, fmt::format("{} {}", key, t.text(key)),
               hf ? "weights of Hugging Face have no stages" : "files of DeepSpeed have no stages", "leave it out");
    else if (!numbers || std::to_string(words.size()) != count)
      t.refuse(key, fmt::format("{} is {}", key, t.text(key)),
               fmt::format("it has a number of layers for each stage, and there {} {}", count == "1" ? "is" : "are", count),
               "correct it, or the number of stages");
    else if (words.size() == 1)
      t.becomes(key, KeyStatus::inert, "one stage has all layers");
    else
      t.command.push_back("--stage-layers"), t.command.insert(t.command.end(), words.begin(), words.end());
  }
}

// Returns the JSON of a config.json; null if it cannot be read, which the conversion reports.
Json config_at(const std::string& path) {
  std::error_code error;
  try {
    return fs::is_regular_file(path, error) ? read_json(path) : Json();
  } catch (const UserError&) {
    return Json();
  }
}

// Appends the layout of experts in megatron-core: one tensor for all with the switch, else a module each.
void add_experts(Translation& t, bool core, const Json& config) {
  const char* key = "--moe-grouped-gemm";
  bool experts = false;
  for (const char* field : {"num_local_experts", "num_experts", "n_routed_experts"})
    experts = experts || (config.is_object() && config.contains(field) && !config[field].is_null());
  if (core && (experts || t.is_on(key)))
    t.command.insert(t.command.end(), {"--experts", t.is_on(key) ? "grouped" : "sequential"});
  else if (t.has(key))
    t.becomes(key, KeyStatus::inert, "names of experts differ in folders of megatron-core alone");
}

// Refuses sizes that differ from config.json: the program reads the flags, Ravine the file.
void refuse_other_sizes(Translation& t, const Json& config, const std::string& path) {
  const auto same = [&](const char* key, std::initializer_list<const char*> fields, const char* fix) {
    for (const char* field : fields) {
      if (!t.has(key) || !config.is_object() || !config.contains(field) || !config[field].is_number_integer()) continue;
      if (config[field].get<int64_t>() != t.whole(key))
        return t.refuse(key, fmt::format("{} is {}, {} of {} is {}", key, t.whole(key), field, path, config[field].dump()),
                        "the model is converted as it is", fix);
      t.agrees(key, "the config.json of the input says it");
    }
  };
  const char* leave = "correct it, or leave it out";
  for (const char* key : {"--num_layers", "--num-layers"}) same(key, {"num_hidden_layers", "n_layer"}, leave);
  for (const char* key : {"--hidden_size", "--hidden-size"}) same(key, {"hidden_size", "n_embd"}, leave);
  for (const char* key : {"--num_heads", "--num-heads"}) same(key, {"num_attention_heads", "n_head"}, leave);
  for (const char* key : {"--num_kv_heads", "--num-kv-heads"}) same(key, {"num_key_value_heads"}, leave);
  for (const char* key : {"--orig-vocab-size", "--true-vocab-size"})
    same(key, {"vocab_size"}, "correct it, or leave it out; `ravine convert --resize-vocab` changes the number of rows");
  for (const char* key : {"--added-token-num", "--target-expert-parallel-size", "--expert-model-parallel-size"})
    if (const bool rows = std::string_view(key) == "--added-token-num"; t.has(key) && t.whole(key) > (rows ? 0 : 1))
      t.refuse(key, fmt::format("{} {}", key, t.whole(key)),
               rows ? "no rows are added on the way" : "all experts lie in the file of each tensor rank",
               rows ? "leave it out, and add them by `ravine convert --resize-vocab`"
                    : "leave it out: a run with --expert-model-parallel-size takes its experts from such files");
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
  // Hugging Face weights are written to mg2hg in the output folder, which has the original config.json.
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
  add_stage_layers(t, hf);
  const std::string place = (fs::path(input) / "config.json").string();
  const Json config = config_at(place);
  refuse_other_sizes(t, config, place);
  if (t.has("--make-vocab-size-divisible-by")) {
    const int64_t n = t.whole("--make-vocab-size-divisible-by");
    if (n < 1)
      t.refuse("--make-vocab-size-divisible-by", fmt::format("--make-vocab-size-divisible-by {}", n), "it is 1 or more",
               "correct it");
    else if (hf)
      t.becomes("--make-vocab-size-divisible-by", KeyStatus::inert, "rows of padding are left out of a Hugging Face folder");
    else
      t.command.insert(t.command.end(), {"--vocab-multiple", std::to_string(n)});
  }
  add_experts(t, !hf && to == "megatron-mcore", config);
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

// Translates merge_lora.py. The merged weights have the layout of --load: folders of ranks, or a Hugging Face folder.
Translation translate_merge(const std::vector<PlacedWord>& words, const MegatronJob& job) {
  const DialectTable table = megatron_running_table(megatron_merge_rows());
  Translation t = translate(table, read_flags(table, words, job.program), job.program);
  t.ranks = 1;
  for (const auto& [key, what] :
       {std::pair{"--load", "the model"}, {"--lora-load", "the adapter"}, {"--save", "the new model"}})
    if (!t.has(key)) t.refuse(key, fmt::format("{} is not given", key), fmt::format("it is {}", what), "name the folder");
  hold_megatron_adapter(t);
  hold_megatron_network(t, job, t.text("--load"), LoadedAs::model);
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

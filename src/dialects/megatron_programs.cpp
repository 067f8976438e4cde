#include "dialects/megatron_programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "dialects/megatron_tables.h"

namespace ravine {
namespace {

using enum KeyType;
namespace fs = std::filesystem;

// The flags of training that programs of running share: what config.json says, or what only training has.
DialectTable megatron_running_table(const DialectTable& own) {
  DialectTable table = own;
  for (DialectKey& row : megatron_training_table(MegatronAge::core)) {
    if (std::any_of(own.begin(), own.end(), [&](const DialectKey& r) { return r.key == row.key; })) continue;
    if (row.status == KeyStatus::used) {
      const bool shape = row.option == "model.config";
      row.status = KeyStatus::inert;
      row.option.clear(), row.copied = false;
      row.reason = shape ? "the config.json of the model says it" : "only training has a use of it";
    }
    table.push_back(std::move(row));
  }
  return table;
}

// parallel.tensor and .pipeline of a command that runs models, and its type of compute.
void add_running_options(Translation& t) {
  std::vector<std::string>& c = t.command;
  for (const auto& [key, option] :
       {std::pair{"--tensor-model-parallel-size", "parallel.tensor"}, {"--pipeline-model-parallel-size", "parallel.pipeline"}})
    if (t.has(key)) c.push_back(fmt::format("{}={}", option, t.whole(key)));
  if (t.is_on("--fp16") || t.is_on("--bf16"))
    c.push_back(fmt::format("precision.compute={}", t.is_on("--fp16") ? "f16" : "bf16"));
}

void add_model(Translation& t) {
  if (!t.has("--load")) return t.refuse("--load", "--load is not given", "a model has to answer", "name a Hugging Face folder");
  t.command.insert(t.command.end(), {"--model", t.text("--load")});
  if (t.has("--lora-load")) t.command.insert(t.command.end(), {"--adapter", t.text("--lora-load")});
  // Folders of ranks, as Megatron leaves them, have no tokenizer: that of the flags is asked, as there.
  std::error_code error;
  const fs::path folder = t.text("--load");
  if (!fs::is_directory(folder, error)) return;
  for (const char* file : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "config.yaml"})
    if (fs::exists(folder / file, error)) return;  // a run has that of its model
  for (const char* key : {"--tokenizer-name-or-path", "--tokenizer-model"})
    if (t.has(key)) {
      t.command.push_back("model.tokenizer=" + t.text(key));
      return t.becomes(key, KeyStatus::used, "model.tokenizer");
    }
}

DialectTable megatron_running_rows() {
  return {
      renamed("--load", text, "--model"),
      renamed("--lora-load", text, "--adapter"),
      renamed("--max-new-tokens", whole, "--max-new-tokens"),
      renamed("--tensor-model-parallel-size", whole, "parallel.tensor"),
      renamed("--pipeline-model-parallel-size", whole, "parallel.pipeline"),
      used("--fp16", on, "precision.compute"),
      used("--bf16", on, "precision.compute"),
      inert("--row-col-parallel-linear-bias", on, "the config.json of the model says it"),
      inert("--tokenizer-type", text, "the model folder has its tokenizer"),
      inert("--tokenizer-name-or-path", text, "the model folder has its tokenizer"),
      inert("--deepspeed", on, "MPI starts the ranks"),
      inert("--tokenizer-kwargs", texts, "the model folder has its tokenizer, with its settings"),
      inert("--add-eos-token", texts, "the model folder has its tokenizer, with its settings"),
      inert("--use-rotary-position-embedding", on, "the config.json of the model says it"),
  };
}

// The folder that holds the folder of the task: "dataset" of "dataset/boolq/test".
std::string folder_of_task(const std::string& path, const std::string& task) {
  fs::path above;
  for (const fs::path& part : fs::path(path)) {
    if (part.string().find(task) != std::string::npos) return above.empty() ? "." : above.string();
    above /= part;
  }
  return path;
}

}  // namespace

DialectTable megatron_evaluation_rows() {
  DialectTable own = megatron_running_rows();
  for (DialectKey& row : DialectTable{used("--task", texts, "--tasks", nullptr), renamed("--task-data-path", texts, "--data"),
                                      renamed("--evaluation-batch-size", whole, "--batch"),
                                      inert("--temperature", number, "the protocol answers greedily"),
                                      inert("--top-p", number, "the protocol answers greedily"),
                                      inert("--top-k", whole, "the protocol answers greedily"),
                                      inert("--greedy", on, "the protocol answers greedily"),
                                      inert("--no-chat-template", on, "questions have no chat template around them"),
                                      refused("--instruction-template", text, "questions are put as the protocol has them",
                                              "use `ravine eval` with --template FILE.json"),
                                      refused("--prompt-type", text, "questions are put as the protocol has them",
                                              "use `ravine eval` with --template FILE.json")})
    own.push_back(std::move(row));
  return own;
}

DialectTable megatron_inference_rows() {
  DialectTable own = megatron_running_rows();
  for (DialectKey& row :
       DialectTable{used("--task", texts, "--sample, --beams"), renamed("--temperature", number, "--temperature", 0.7),
                    renamed("--top-k", whole, "--top-k", 50), renamed("--top-p", number, "--top-p", 0.95),
                    inert("--max-length", whole, "--max-new-tokens says how much is written"), used("--seed", whole, "--seed"),
                    used("--prompt-type", text, "--template"), used("--hf-chat-template", on, "--chat")})
    own.push_back(std::move(row));
  return own;
}

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
      renamed("--loader", text, "--from"),
      renamed("--saver", text, "--to", "megatron"),
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
      used("--load-model-type", text, "--to", nullptr, {"hf", "mg"}),
      used("--use-mcore-models", on, "--to"),
      inert("--model-type-hf", text, "the input is recognised"),
      inert("--target-expert-parallel-size", whole, "experts are written whole in each rank's file, and cut as they are read"),
      inert("--expert-model-parallel-size", whole, "experts are written whole in each rank's file, and cut as they are read"),
      inert("--moe-grouped-gemm", on, "experts are told apart by their names"),
      inert("--post-norm", on, said),
      inert("--qk-layernorm", on, said),
      inert("--num-layer-list", text, "stages have equal numbers of layers in the folders that are written"),
      refused("--lora-load", text, "an adapter is merged by a command of its own",
              "use `ravine merge-lora --model BASE --adapter ADAPTER --output DIR`"),
      inert("--lora-r", whole, "the adapter says it"),
      inert("--lora-alpha", number, "the adapter says it"),
      inert("--lora-target-modules", texts, "the adapter says it"),
      inert("--max-queue-size", whole, "one process reads and writes"),
      inert("--no-checking", on, "one process reads and writes"),
      used("--params-dtype", text, "--dtype", nullptr, {"fp16", "bf16", "fp32"}),
      refused("--partition-layers", text, "stages have equal numbers of layers in the folders that are written"),
  };
}

Translation translate_evaluation(const std::vector<PlacedWord>& words, const MegatronJob& job) {
  const DialectTable table = megatron_running_table(megatron_evaluation_rows());
  Translation t = translate(table, read_flags(table, words, job.program), job.program);
  t.ranks = job.ranks;
  t.command = {"eval"};
  add_model(t);
  const Json none = Json::array();
  const Json &tasks = t.has("--task") ? t.value("--task") : none,
             &paths = t.has("--task-data-path") ? t.value("--task-data-path") : none;
  std::string names, data;
  for (const Json& task : tasks) {
    const std::string name = task.get<std::string>();
    names += (names.empty() ? "" : ",") + name;
    for (const Json& path : paths)
      if (const std::string folder = folder_of_task(path.get<std::string>(), name); folder != path || paths.size() == 1) {
        if (!data.empty() && data != folder)
          t.refuse("--task-data-path", fmt::format("--task-data-path {} and {}", data, folder),
                   "one folder holds the folders of all tasks", "evaluate them one by one, or lay them side by side");
        data = folder;
      }
  }
  if (tasks.size() == 1) t.shows("--task", tasks[0]);
  if (paths.size() == 1) t.shows("--task-data-path", paths[0]);
  if (names.empty()) t.refuse("--task", "--task is not given", "it says what is asked", "write --task boolq");
  if (data.empty()) t.refuse("--task-data-path", "--task-data-path is not given", "it holds the benchmarks", "name the folder");
  t.command.insert(t.command.end(), {"--tasks", names, "--data", data, "--output", "eval-" + names});
  if (t.has("--max-new-tokens"))
    t.command.insert(t.command.end(), {"--max-new-tokens", std::to_string(t.whole("--max-new-tokens"))});
  if (t.has("--evaluation-batch-size"))
    t.command.insert(t.command.end(), {"--batch", std::to_string(t.whole("--evaluation-batch-size"))});
  add_running_options(t);
  return t;
}

Translation translate_inference(const std::vector<PlacedWord>& words, const MegatronJob& job) {
  const DialectTable table = megatron_running_table(megatron_inference_rows());
  Translation t = translate(table, read_flags(table, words, job.program), job.program);
  t.ranks = job.ranks;
  // The demonstration's tasks by number and by name; the first one that is asked for is run.
  std::string task = t.has("--task") && !t.value("--task").empty() ? t.value("--task")[0].get<std::string>() : "1";
  if (t.has("--task") && t.value("--task").size() == 1) t.shows("--task", t.value("--task")[0]);
  const std::vector<std::string> names = {
      "greedy", "do_sample", "beam_search", "beam_search_with_sampling", "return_output_log_probs", "chat"};
  if (task.size() == 1 && task[0] >= '1' && task[0] <= '6') task = names[static_cast<size_t>(task[0] - '1')];
  if (std::find(names.begin(), names.end(), task) == names.end())
    t.refuse("--task", "--task " + task, fmt::format("it is 1 to 6, or one of {}", fmt::join(names, ", ")), "correct it");
  if (task == "beam_search_with_sampling")
    t.refuse("--task", "--task " + task, "beams are not drawn", "choose beam_search or do_sample");
  if (t.has("--task") && t.value("--task").size() > 1) t.notice("of several tasks the first is run: " + task);
  const bool samples = task == "do_sample" || task == "chat";
  t.command = {task == "chat" ? "chat" : "generate"};
  add_model(t);
  if (task != "chat") t.command.insert(t.command.end(), {"--prompt", "how are you?"});
  if (task != "chat" && (t.has("--prompt-type") || t.has("--hf-chat-template"))) t.command.push_back("--chat");
  if (t.has("--prompt-type") && !t.is_on("--hf-chat-template"))
    t.command.insert(t.command.end(), {"--template", t.text("--prompt-type")});
  else if (t.has("--prompt-type"))
    t.becomes("--prompt-type", KeyStatus::inert, "--hf-chat-template counts: the model's own template");
  t.command.insert(t.command.end(),
                   {"--max-new-tokens", std::to_string(t.has("--max-new-tokens") ? t.whole("--max-new-tokens") : 128)});
  if (task == "do_sample") t.command.push_back("--sample");
  if (task == "beam_search") t.command.insert(t.command.end(), {"--beams", "2"});
  if (task == "return_output_log_probs") t.command.push_back("--json");
  for (const char* key : {"--temperature", "--top-k", "--top-p"}) {
    if (samples)
      t.command.insert(t.command.end(), {key, t.value(key).dump()});
    else if (t.has(key))
      t.becomes(key, KeyStatus::inert, "this task does not sample");
  }
  if (t.has("--seed") && samples) t.command.insert(t.command.end(), {"--seed", std::to_string(t.whole("--seed"))});
  if (t.has("--seed") && !samples) t.becomes("--seed", KeyStatus::inert, "this task does not sample");
  add_running_options(t);
  return t;
}

Translation translate_conversion(const std::vector<PlacedWord>& words, const MegatronJob& job) {
  const DialectTable table = megatron_conversion_table();
  Translation t = translate(table, read_flags(table, words, job.program), job.program);
  t.ranks = 1;
  const auto first = [&](std::initializer_list<const char*> keys) -> std::string {
    for (const char* key : keys)
      if (t.has(key)) return t.value(key).is_string() ? t.text(key) : std::to_string(t.whole(key));
    return "";
  };
  // Since 2024 a switch says it, beside the type of the input; before, the name of the program did.
  const bool core =
      t.has("--load-model-type") ? t.is_on("--use-mcore-models") : job.program == "util.py" || job.program == "convert_ckpt.py";
  const std::string input = first({"--input-model-dir", "--load-dir"}), output = first({"--output-model-dir", "--save-dir"});
  if (input.empty())
    t.refuse("--input-model-dir", "--input-model-dir is not given", "it is what is converted", "name the folder");
  if (output.empty())
    t.refuse("--output-model-dir", "--output-model-dir is not given", "a folder is written", "name the folder");
  const std::string kind = t.text("--save-model-type");
  const bool hf = kind == "hf" || kind.find("huggingface") != std::string::npos;
  // Weights of Hugging Face go into a folder of the one that has the original's config.json.
  const std::string target = kind == "hf" ? (fs::path(output) / "mg2hg").string() : output;
  t.command = {
      "convert", "--input", input, "--output", target, "--to", hf ? "hf" : core ? "megatron-mcore" : "megatron-legacy"};
  std::error_code error;
  if (const fs::path config = fs::path(output) / "config.json"; kind == "hf" && fs::is_regular_file(config, error))
    t.command.insert(t.command.end(), {"--model-config", config.string()});
  const std::string tensor = first(
                        {"--tensor-model-parallel-size", "--tgt-tensor-model-parallel-size", "--target-tensor-parallel-size"}),
                    pipeline = first({"--pipeline-model-parallel-size", "--tgt-pipeline-model-parallel-size",
                                      "--target-pipeline-parallel-size"});
  if (t.has("--deepspeed")) {
    t.becomes("--deepspeed", KeyStatus::inert,
              "a run with ZeRO stages goes on from the same weights: they are cut as they are read");
  }
  if (!hf && !tensor.empty()) t.command.insert(t.command.end(), {"--tensor", tensor});
  if (!hf && !pipeline.empty()) t.command.insert(t.command.end(), {"--pipeline", pipeline});
  if (t.has("--params-dtype")) {
    const std::string type = t.text("--params-dtype");
    t.command.insert(t.command.end(), {"--dtype", type == "fp16" ? "f16" : type == "fp32" ? "f32" : "bf16"});
  }
  for (const char* key : {"--loader", "--saver"})
    if (t.has(key)) t.becomes(key, KeyStatus::inert, "the input is recognised, and --save-model-type says what is written");
  return t;
}

}  // namespace ravine

// Translates run_mode predict into the words of `ravine generate`.
#include <fmt/format.h>

#include <filesystem>

#include "dialects/mindformers_run.h"

namespace ravine {
namespace {

bool is_model_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path + "/config.json", error);
}

}  // namespace

void set_mindformers_prediction(Translation& t) {
  const std::string model = "model.model_config.";
  const std::string key = t.text("load_checkpoint").empty() ? "pretrained_model_dir" : "load_checkpoint";
  const std::string folder = t.text(key);
  if (!is_model_folder(folder)) {
    t.refuse(key, folder.empty() ? std::string("no model to speak") : fmt::format("{} is no folder of Hugging Face", folder),
             "text is made by a folder with config.json, weights and tokenizer",
             "name it in load_checkpoint or pretrained_model_dir; `ravine convert --to hf` makes one of other weights");
    return;
  }
  t.command = {"generate", "--model", folder};
  const Json& data = t.value("input_data");
  const Json& first = data.is_array() && !data.empty() ? data[0] : data;
  if (!first.is_string() || first.get<std::string>().empty()) {
    t.refuse("input_data", "no prompt", "--predict_data is the text to go on from", "write --predict_data \"TEXT\"");
    return;
  }
  std::error_code error;
  const auto prompt = first.get<std::string>();
  t.command.insert(t.command.end(),
                   {prompt.ends_with(".txt") && std::filesystem::exists(prompt, error) ? "--prompts" : "--prompt", prompt});
  if (data.is_array() && data.size() > 1)
    t.notice(fmt::format("of {} prompts the first is read; a file FILE.txt has one in each line", data.size()));
  if (const Json& file = t.value("save_file"); file.is_string() && !file.get<std::string>().empty())
    t.refuse("save_file", fmt::format("save_file is {}", file.dump()), "the text goes to stdout",
             "leave it out, and write > FILE behind the command");
  if (!t.value("adapter_id").is_null())
    t.refuse("adapter_id", fmt::format("adapter_id is {}", t.value("adapter_id").dump()), "no adapter is chosen by its number",
             "leave it out; `ravine merge-lora` makes a folder of a model and its adapter");
  const auto flag = [&](const char* name, const char* to) {
    const std::string from = model + name;
    if (!gives(t, from) || !t.has(from)) return;
    t.becomes(from, KeyStatus::used, to);
    t.command.insert(t.command.end(), {to, t.value(from).dump()});
  };
  flag(gives(t, model + "max_new_tokens") ? "max_new_tokens" : "max_decode_length", "--max-new-tokens");
  if (gives(t, model + "do_sample") && t.is_on(model + "do_sample")) {
    t.becomes(model + "do_sample", KeyStatus::used, "--sample");
    t.command.push_back("--sample");
    for (const auto& [name, to] : {std::pair{"temperature", "--temperature"}, {"top_k", "--top-k"}, {"top_p", "--top-p"}})
      flag(name, to);
    if (t.has("seed")) t.command.insert(t.command.end(), {"--seed", std::to_string(t.whole("seed"))});
  }
  flag("repetition_penalty", "--repetition-penalty");
}

}  // namespace ravine

#include "apps/named_prompt_models.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "base/cut_text.h"
#include "base/log.h"
#include "base/text.h"
#include "config/option.h"
#include "files/tokenizer_files.h"
#include "runs/run_paths.h"
#include "runs/vocabulary.h"
#include "text/chat/prompt_templates.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {

NamedPromptModels::NamedPromptModels(const ModelOptions& model, const std::vector<NamedPath>& adapters,
                                     const std::string& chat_template, const Chat& chat)
    : folder_(model.path), chat_(chat) {
  if (!chat_template.empty()) check_template_name(chat_template, "--template");
  const bool named = !adapters.empty() && !adapters[0].name.empty();
  std::vector<NamedPath> all = adapters;
  if (adapters.empty() || named) all.insert(all.begin(), NamedPath{});
  std::map<std::string, std::shared_ptr<const Tokenizer>> opened;  // by place
  for (const NamedPath& one : all) {
    auto named = std::make_unique<NamedPromptModel>();
    named->name = one.name, named->adapter = one.path;
    named->paths = chat_paths(model.path, one.path);
    if (!model.tokenizer.empty()) named->paths.tokenizer = model.tokenizer;
    if (!chat_template.empty()) named->paths.chat_template = chat_template;
    const std::string& tokenizer_path = named->paths.tokenizer;
    if (!model.tokenizer.empty() || has_tokenizer(tokenizer_path)) {
      std::shared_ptr<const Tokenizer>& tokenizer = opened[tokenizer_path];
      if (!tokenizer) {
        tokenizer = open_tokenizer(tokenizer_path);
        if (!model.tokenizer.empty()) foreign_ = foreign_tokenizer_problem(*tokenizer, tokenizer_path, model.path);
      }
      named->tokenizer = tokenizer;
    }
    named_models_.push_back(std::move(named));
  }
}

void NamedPromptModels::open(const LoadedModel& base) {
  if (!foreign_.empty() && base.ranks().first()) print_stderr(escaped("warning: " + foreign_));
  for (const auto& named : named_models_) {
    named->loaded = &base;
    if (!named->name.empty()) {
      loaded_models_.push_back(std::make_unique<LoadedModel>(load_on_base(base, named->adapter)));
      named->loaded = loaded_models_.back().get();
      if (base.ranks().first())
        for (const std::string& line : {older_than_its_run(named->adapter), trained_on_other_base(named->adapter, folder_)})
          if (!line.empty()) print_stderr(escaped("warning: " + line));
    }
    named->defaults = read_generation_config(named->paths.generation, named->loaded->model->facts());
  }
}

size_t NamedPromptModels::find(const std::string& name, const std::string& where) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < named_models_.size(); ++i) {
    if (named_models_[i]->name == name) return i;
    if (!named_models_[i]->name.empty()) names.push_back(named_models_[i]->name);
  }
  const std::string shown = escaped(cut_text(name, 80));
  throw UserError(
      fmt::format("no adapter is called '{}'", shown), where,
      names.empty() ? "adapters get names by --adapter NAME=DIR" : fmt::format("there are {}", fmt::join(names, ", ")),
      names.empty() ? fmt::format("add --adapter {}=DIR", shown)
                    : did_you_mean(name, names, fmt::format("add --adapter {}=DIR", shown)));
}

size_t NamedPromptModels::only() const {
  if (named_models_.size() > 2)
    throw UserError(fmt::format("{} adapters, and none is chosen", named_models_.size() - 1), "--adapter",
                    "such a prompt does not name an adapter", fmt::format("add --use {}", named_models_[1]->name));
  return named_models_.size() - 1;
}

ChatPrompt& NamedPromptModels::chat(size_t named) {
  NamedPromptModel& v = *named_models_[named];
  if (!v.tokenizer)
    throw UserError("no tokenizer", folder_, "conversations need the tokenizer of the model",
                    "put it there, or set model.tokenizer");
  if (!v.chat) v.chat.emplace(*v.tokenizer, v.paths.chat_template, v.paths.tokenizer, chat_.system);
  return *v.chat;
}

std::vector<int32_t> NamedPromptModels::encode(size_t named, const std::string& text) {
  NamedPromptModel& v = *named_models_[named];
  if (!v.tokenizer && !chat_.on)
    throw UserError("no tokenizer", folder_, "text needs the tokenizer of the model",
                    "put it there, set model.tokenizer, or give ids with --prompt-ids");
  if (find_invalid_utf8(text) != std::string::npos)
    throw UserError("text is not UTF-8", "--prompt", "prompts must be UTF-8", kToUtf8);
  if (!chat_.on) return v.tokenizer->encode(text, true);
  ChatPrompt& conversation = chat(named);
  conversation.begin_again();
  return conversation.add_question(text);
}

void end_with_template(GenerateOptions& options, const NamedPromptModel& named) {
  if (!named.chat) return;
  std::vector<int32_t>& ids = options.end_ids;
  const int32_t end = named.chat->end_token();
  if (end < named.loaded->model->facts().vocabulary && std::find(ids.begin(), ids.end(), end) == ids.end()) ids.push_back(end);
}

}  // namespace ravine

#include "apps/voices.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "base/cut_text.h"
#include "base/log.h"
#include "base/text.h"
#include "config/option.h"
#include "files/tokenizer_files.h"
#include "runs/run_places.h"
#include "runs/vocabulary.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {

Voices::Voices(const ModelOptions& model, const std::vector<NamedPath>& adapters, const std::string& chat_template,
               const Chat& chat)
    : folder_(model.path), chat_(chat) {
  const bool named = !adapters.empty() && !adapters[0].name.empty();
  std::vector<NamedPath> all = adapters;
  if (adapters.empty() || named) all.insert(all.begin(), NamedPath{});
  std::map<std::string, std::shared_ptr<const Tokenizer>> opened;  // by place
  for (const NamedPath& one : all) {
    auto voice = std::make_unique<Voice>();
    voice->name = one.name, voice->adapter = one.path;
    voice->talk = talk_places(model.path, one.path);
    if (!model.tokenizer.empty()) voice->talk.tokenizer = model.tokenizer;
    if (!chat_template.empty()) voice->talk.chat_template = chat_template;
    const std::string& place = voice->talk.tokenizer;
    if (!model.tokenizer.empty() || has_tokenizer(place)) {
      std::shared_ptr<const Tokenizer>& tokenizer = opened[place];
      if (!tokenizer) {
        tokenizer = open_tokenizer(place);
        if (!model.tokenizer.empty()) foreign_ = foreign_tokenizer_trouble(*tokenizer, place, model.path);
      }
      voice->tokenizer = tokenizer;
    }
    voices_.push_back(std::move(voice));
  }
}

void Voices::open(const Session& base) {
  if (!foreign_.empty() && base.ranks().first()) say(escaped("warning: " + foreign_));
  for (const auto& voice : voices_) {
    voice->session = &base;
    if (!voice->name.empty()) {
      sessions_.push_back(std::make_unique<Session>(open_beside(base, voice->adapter)));
      voice->session = sessions_.back().get();
      if (base.ranks().first())
        for (const std::string& line : {older_than_its_run(voice->adapter), trained_beside_another(voice->adapter, folder_)})
          if (!line.empty()) say(escaped("warning: " + line));
    }
    voice->defaults = read_generation_config(voice->talk.generation, voice->session->model->facts());
  }
}

size_t Voices::find(const std::string& name, const std::string& where) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < voices_.size(); ++i) {
    if (voices_[i]->name == name) return i;
    if (!voices_[i]->name.empty()) names.push_back(voices_[i]->name);
  }
  const std::string shown = escaped(cut_text(name, 80));
  throw UserError(
      fmt::format("no adapter is called '{}'", shown), where,
      names.empty() ? "adapters get names by --adapter NAME=DIR" : fmt::format("there are {}", fmt::join(names, ", ")),
      names.empty() ? fmt::format("add --adapter {}=DIR", shown)
                    : did_you_mean(name, names, fmt::format("add --adapter {}=DIR", shown)));
}

size_t Voices::only() const {
  if (voices_.size() > 2)
    throw UserError(fmt::format("{} adapters, and none is chosen", voices_.size() - 1), "--adapter",
                    "such a prompt does not say which it is for", fmt::format("add --use {}", voices_[1]->name));
  return voices_.size() - 1;
}

ChatPrompt& Voices::chat(size_t voice) {
  Voice& v = *voices_[voice];
  if (!v.tokenizer)
    throw UserError("no tokenizer", folder_, "conversations need the tokenizer of the model",
                    "put it there, or set model.tokenizer");
  if (!v.chat) v.chat.emplace(*v.tokenizer, v.talk.chat_template, v.talk.tokenizer, chat_.system);
  return *v.chat;
}

std::vector<int32_t> Voices::encode(size_t voice, const std::string& text) {
  Voice& v = *voices_[voice];
  if (!v.tokenizer && !chat_.on)
    throw UserError("no tokenizer", folder_, "text needs the tokenizer of the model",
                    "put it there, set model.tokenizer, or give ids with --prompt-ids");
  if (find_invalid_utf8(text) != std::string::npos)
    throw UserError("text is not UTF-8", "--prompt", "prompts must be UTF-8", kToUtf8);
  if (!chat_.on) return v.tokenizer->encode(text, true);
  ChatPrompt& conversation = chat(voice);
  conversation.begin_again();
  return conversation.ask(text);
}

void end_with_template(GenerateOptions& options, const Voice& voice) {
  if (!voice.chat) return;
  std::vector<int32_t>& ids = options.end_ids;
  const int32_t end = voice.chat->end_token();
  if (end < voice.session->model->facts().vocabulary && std::find(ids.begin(), ids.end(), end) == ids.end()) ids.push_back(end);
}

}  // namespace ravine

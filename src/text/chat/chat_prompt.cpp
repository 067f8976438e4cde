#include "text/chat/chat_prompt.h"

#include "base/error.h"
#include "text/chat/call_arguments.h"
#include "text/chat/end_of_answer.h"
#include "text/chat/prompt_templates.h"

namespace ravine {

ChatPrompt::ChatPrompt(const Tokenizer& tokenizer, const std::string& wanted, const std::string& folder,
                       const std::string& system)
    : tokenizer_(tokenizer), chat_(choose_template(wanted, folder, tokenizer, "--template").chat), system_(system) {
  try {
    end_ = end_of_answer(tokenizer, *chat_).id;
  } catch (const jinja::TemplateError& e) {
    throw UserError("the chat template refuses this conversation", "a question and its answer", e.what(),
                    "give another --template");
  }
  begin_again();
}

void ChatPrompt::begin_again() {
  messages_ = Json::array();
  if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
}

void ChatPrompt::set_system(const std::string& text) {
  system_ = text;
  begin_again();
}

void ChatPrompt::set_messages(Json messages) {
  messages_ = std::move(messages);
  const bool system = !messages_.empty() && messages_[0].at("role") == "system";
  const Json content = system ? messages_[0].value("content", Json()) : Json();
  system_ = content.is_string() ? content.get<std::string>() : "";
}

void ChatPrompt::take_back() { messages_.erase(messages_.size() - 1); }

bool ChatPrompt::forget_oldest() {
  auto next_question = [&](size_t from) {
    while (from < messages_.size() && messages_[from].at("role") != "user") ++from;
    return from;
  };
  const size_t first = system_.empty() ? 0 : 1, next = next_question(next_question(first) + 1);
  if (next >= messages_.size()) return false;
  for (size_t i = first; i < next; ++i) messages_.erase(first);
  return true;
}

std::vector<int32_t> ChatPrompt::ids_of(const Json& messages) const {
  return tokenizer_.encode(
      chat_->render(with_written_arguments(*chat_, {{"messages", messages}, {"add_generation_prompt", true}})), false);
}

std::vector<int32_t> ChatPrompt::add_question(const std::string& question) {
  messages_.push_back({{"role", "user"}, {"content", question}});
  try {
    return ids_of(messages_);
  } catch (const jinja::TemplateError& e) {
    take_back();
    throw UserError("the chat template refuses this conversation", "the conversation", e.what(),
                    "leave out --system, or give another --template");
  }
}

void ChatPrompt::answered(const std::vector<int32_t>& prompt, const std::vector<int32_t>& ids) {
  StreamDecoder decoder(tokenizer_, true);
  for (int32_t id : prompt) decoder.next(id);
  decoder.settle();
  std::string text;
  for (int32_t id : ids)
    if (id < tokenizer_.size()) text += decoder.next(id);
  answered(text + decoder.finish());
}

void ChatPrompt::answered(const std::string& text) { messages_.push_back({{"role", "assistant"}, {"content", text}}); }

}  // namespace ravine

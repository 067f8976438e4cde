#include "text/chat/chat_prompt.h"

#include "base/error.h"
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

std::vector<int32_t> ChatPrompt::ask(const std::string& question) {
  messages_.push_back({{"role", "user"}, {"content", question}});
  try {
    return tokenizer_.encode(chat_->render({{"messages", messages_}, {"add_generation_prompt", true}}), false);
  } catch (const jinja::TemplateError& e) {
    throw UserError("the chat template refuses this conversation", "--chat", e.what(),
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
  messages_.push_back({{"role", "assistant"}, {"content", text + decoder.finish()}});
}

}  // namespace ravine

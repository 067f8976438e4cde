#include "serve/openai_reply.h"

#include <ctime>
#include <random>
#include <utility>

#include <fmt/format.h>

namespace ravine {
namespace {

std::string random_name() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 4; ++i) name += fmt::format("{:08x}", random());
  return name;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }
std::string event(const Json& json) { return "data: " + dumped(json) + "\n\n"; }

Json finish_of(std::optional<Finish> finish) {
  if (!finish) return nullptr;
  return *finish == Finish::length ? "length" : "stop";
}

Json usage_of(const Usage& u) {
  return {{"prompt_tokens", u.prompt_tokens},
          {"completion_tokens", u.completion_tokens},
          {"total_tokens", u.prompt_tokens + u.completion_tokens}};
}

// Null for what is no text by itself.
Json bytes_of(const std::string& text) {
  if (text.find("\xEF\xBF\xBD") != std::string::npos) return nullptr;
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

}  // namespace

TokenTexts::TokenTexts(const Tokenizer& tokenizer) : tokenizer_(&tokenizer), before_(tokenizer.encode("a", false)) {}

std::string TokenTexts::behind(std::span<const int32_t> before, int32_t id) const {
  StreamDecoder decoder(*tokenizer_, false);
  for (const int32_t known : before) decoder.next(known);
  decoder.settle();
  std::string text = decoder.next(id);
  return text + decoder.finish();
}

std::string TokenTexts::operator()(int32_t id, bool first) const {
  if (id >= tokenizer_->size()) return "";
  std::string text = behind(before_, id);
  if (!first) return text;
  std::string alone = behind({}, id);
  return text == " " + alone ? alone : text;
}

Reply::Reply(std::string model, bool chat, bool logprobs, const Tokenizer& tokenizer, size_t choices)
    : model_(std::move(model)),
      id_((chat ? "chatcmpl-" : "cmpl-") + random_name()),
      created_(std::time(nullptr)),
      chat_(chat),
      logprobs_(logprobs),
      texts_(tokenizer),
      choices_(choices) {}

Json Reply::object(bool chunk) const {
  return {{"id", id_},
          {"object", !chat_  ? "text_completion"
                     : chunk ? "chat.completion.chunk"
                             : "chat.completion"},
          {"created", created_},
          {"model", model_},
          {"choices", Json::array()}};
}

Json Reply::log_probabilities(Choice& choice, const std::vector<NewToken>& tokens) const {
  if (!logprobs_) return nullptr;
  Json content = Json::array(), names = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const NewToken& t : tokens) {
    const bool first = !std::exchange(choice.begun, true);
    const std::string text = texts_(t.id, first);
    Json list = Json::array(), top = Json::object();
    for (const auto& [id, logprob] : t.best) {
      const std::string other = texts_(id, first);
      list.push_back({{"token", other}, {"logprob", logprob}, {"bytes", bytes_of(other)}});
      // Tokens of one text: the likelier one keeps it, the other is told by its id.
      top[top.contains(other) ? fmt::format("token_id:{}", id) : other] = logprob;
    }
    if (first) choice.offset = texts_(t.id, false).size() - text.size();
    content.push_back({{"token", text}, {"logprob", t.logprob}, {"bytes", bytes_of(text)}, {"top_logprobs", list}});
    names.push_back(text), values.push_back(t.logprob), tops.push_back(top), offsets.push_back(choice.offset);
    choice.offset += text.size();
  }
  if (chat_) return {{"content", content}};
  return {{"tokens", names}, {"token_logprobs", values}, {"top_logprobs", tops}, {"text_offset", offsets}};
}

std::string Reply::first(size_t choice) const {
  if (!chat_) return "";
  Json o = object(true);
  o["choices"].push_back({{"index", choice},
                          {"delta", {{"role", "assistant"}, {"content", ""}}},
                          {"logprobs", nullptr},
                          {"finish_reason", nullptr}});
  return event(o);
}

std::string Reply::piece(size_t choice, const std::string& text, const std::vector<NewToken>& tokens,
                         std::optional<Finish> finish, bool usage) {
  Json o = object(true), one{{"index", choice}};
  if (chat_)
    one["delta"] = text.empty() && finish ? Json::object() : Json{{"content", text}};
  else
    one["text"] = text;
  one["logprobs"] = log_probabilities(choices_[choice], tokens);
  one["finish_reason"] = finish_of(finish);
  o["choices"].push_back(std::move(one));
  if (usage) o["usage"] = nullptr;
  return event(o);
}

std::string Reply::last(const Usage& usage) const {
  Json o = object(true);
  o["usage"] = usage_of(usage);
  return event(o);
}

void Reply::add(size_t choice, const std::string& text, const std::vector<NewToken>& tokens, std::optional<Finish> finish) {
  Choice& c = choices_[choice];
  c.text += text;
  if (logprobs_) c.tokens.insert(c.tokens.end(), tokens.begin(), tokens.end());
  if (finish) c.finish = finish;
}

std::string Reply::whole(const Usage& usage) const {
  Json o = object(false);
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& c = choices_[i];
    Json one{{"index", i}};
    if (chat_)
      one["message"] = {{"role", "assistant"}, {"content", c.text}};
    else
      one["text"] = c.text;
    one["logprobs"] = log_probabilities(c, c.tokens);
    one["finish_reason"] = finish_of(c.finish);
    o["choices"].push_back(std::move(one));
  }
  o["usage"] = usage_of(usage);
  return dumped(o);
}

}  // namespace ravine

#include "serve/openai_reply.h"

#include <ctime>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "text/unicode/unicode.h"

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

Json list_of(const std::string& bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

// Returns a token as a string, for completions, whose format has no list of bytes. A token that is not UTF-8 becomes
// "bytes:\\xf0\\x9f", as in OpenAI's API.
std::string name_of(const std::string& bytes) {
  if (find_invalid_utf8(bytes) == std::string::npos) return bytes;
  std::string name = "bytes:";
  for (const char c : bytes)
    name += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

}  // namespace

Reply::Reply(std::string model, bool chat, bool logprobs, const Tokenizer& tokenizer, size_t choices)
    : model_(std::move(model)),
      id_((chat ? "chatcmpl-" : "cmpl-") + random_name()),
      created_(std::time(nullptr)),
      chat_(chat),
      logprobs_(logprobs),
      tokens_(tokenizer),
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

void Reply::begins(size_t choice, std::span<const int32_t> prompt) {
  if (!logprobs_) return;
  choices_[choice].at_start = tokens_.no_text(prompt);
  choices_[choice].token_offsets.emplace(tokens_.tokenizer(), prompt);
}

Json Reply::log_probabilities(Choice& choice, const std::vector<NewToken>& tokens, bool end) const {
  if (!logprobs_) return nullptr;
  Json content = Json::array(), names = Json::array(), values = Json::array(), tops = Json::array();
  std::vector<int64_t> offsets;
  for (const NewToken& t : tokens) {
    const std::string bytes = tokens_.of(t.id, choice.at_start);
    const bool in_text = !tokens_.skipped(t.id);
    // The first token of completions is written as at the start of a text.
    const bool begins = choice.first || choice.at_start;
    Json list = Json::array(), top = Json::object();
    for (const auto& [id, logprob] : t.best) {
      const std::string other = tokens_.of(id, choice.at_start), name = name_of(tokens_.of(id, begins));
      list.push_back({{"token", lossy_utf8(other)}, {"logprob", logprob}, {"bytes", list_of(other)}});
      // If two tokens have the same text, the likelier one keeps it, and the other is named by its id.
      top[top.contains(name) ? fmt::format("token_id:{}", id) : name] = logprob;
    }
    content.push_back(
        {{"token", lossy_utf8(bytes)}, {"logprob", t.logprob}, {"bytes", list_of(bytes)}, {"top_logprobs", list}});
    names.push_back(name_of(tokens_.of(t.id, begins))), values.push_back(t.logprob), tops.push_back(top);
    choice.token_offsets->add(t.id, in_text ? bytes : "", offsets);
    if (in_text) choice.at_start = choice.first = false;
  }
  if (end) choice.token_offsets->end(offsets);
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
  one["logprobs"] = log_probabilities(choices_[choice], tokens, finish.has_value());
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
    one["logprobs"] = log_probabilities(c, c.tokens, true);
    one["finish_reason"] = finish_of(c.finish);
    o["choices"].push_back(std::move(one));
  }
  o["usage"] = usage_of(usage);
  return dumped(o);
}

}  // namespace ravine

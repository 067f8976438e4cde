#include "data/instruct/preference.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/instruct/conversation.h"
#include "files/checksum.h"

namespace ravine {
namespace {

[[noreturn]] void wrong_preference(const std::string& what, const std::string& where, const std::string& rule,
                                   const std::string& fix = "correct the record, or leave it out") {
  throw UserError(what, where, rule, fix);
}

bool is_given(const Json& record, const char* key) { return record.contains(key) && !record[key].is_null(); }

const Json& answer_of(const Json& record, const char* key, const std::string& where) {
  if (!is_given(record, key)) {
    std::vector<std::string> keys;
    for (const auto& [k, v] : record.items()) keys.push_back(k);
    const std::string near = record.contains(key) ? "" : nearest(key, keys);
    wrong_preference(record.contains(key) ? fmt::format("'{}' is null", key) : fmt::format("no key '{}'", key), where,
                     fmt::format("a preference has 'chosen' and 'rejected', the record has {}",
                                 keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "))),
                     near.empty()
                         ? "name the answers 'chosen' and 'rejected', or set train.objective=causal to learn from conversations"
                         : fmt::format("rename '{}' to '{}'", near, key));
  }
  return record[key];
}

// Returns the number of bytes of the common beginning of two texts, in whole characters.
size_t shared_text(const std::string& a, const std::string& b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  auto inside = [](const std::string& s, size_t at) {
    return at < s.size() && (static_cast<unsigned char>(s[at]) & 0xC0) == 0x80;
  };
  while (n > 0 && (inside(a, n) || inside(b, n))) --n;
  return n;
}

// Returns the offset of the last character before `end`.
size_t character_before(const std::string& s, size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(s[end]) & 0xC0) == 0x80);
  return end;
}

void extract_text_prompt(Preference& p) {
  size_t n = shared_text(p.chosen, p.rejected);
  if (n == std::min(p.chosen.size(), p.rejected.size()))
    // The shorter text keeps a character.
    n = character_before(p.chosen.size() < p.rejected.size() ? p.chosen : p.rejected, n);
  else if (n > 0 && p.chosen[n - 1] == ' ')
    --n;
  p.prompt = p.chosen.substr(0, n);
  p.chosen.erase(0, n), p.rejected.erase(0, n);
}

// Reads an answer: a list of messages, or one message.
Json messages_of(const Json& given, const Json& record, const char* key, const std::string& where) {
  Json as_chat{{"messages", given.is_array() ? given : Json::array({given})}};
  if (record.contains("tools")) as_chat["tools"] = record["tools"];
  return read_conversation(as_chat, ChatFormat::messages, fmt::format("{}: {}", where, key)).messages;
}

Json joined_messages(Json a, const Json& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Returns the key of the question in the formats of conversations; null: "prompt", or no question.
const char* question_key(const Json& r) {
  for (const char* key : {"instruction", "conversations", "messages"})
    if (is_given(r, key)) return key;
  return nullptr;
}

// Reads a preference with Alpaca's keys, whose answers are texts.
Preference alpaca_preference(const Json& r, const std::string& where) {
  Preference p;
  p.conversation = true;
  auto with = [&](const char* key) {
    Json as_chat = r;
    as_chat["output"] = r[key];
    return read_conversation(as_chat, ChatFormat::alpaca, where).messages;
  };
  p.chosen_messages = with("chosen"), p.rejected_messages = with("rejected");
  p.prompt_messages = p.chosen_messages;
  p.prompt_messages.erase(p.prompt_messages.size() - 1);
  return p;
}

// Reads a preference of lists of messages: with a prompt, or with a common beginning of both answers.
Preference conversation(const Json& r, const std::string& where) {
  Preference p;
  p.conversation = true;
  const char* question = question_key(r);
  Json chosen = messages_of(r["chosen"], r, "chosen", where), rejected = messages_of(r["rejected"], r, "rejected", where);
  if (r.contains("tools"))
    p.tools =
        read_conversation({{"messages", Json::array({chosen.back()})}, {"tools", r["tools"]}}, ChatFormat::messages, where)
            .tools;
  if (question || (is_given(r, "prompt") && r["prompt"].is_array())) {
    p.prompt_messages =
        !question ? messages_of(r["prompt"], r, "prompt", where)
                  : read_conversation(r, std::string_view(question) == "messages" ? ChatFormat::messages : ChatFormat::sharegpt,
                                      where)
                        .messages;
    p.chosen_messages = joined_messages(p.prompt_messages, chosen);
    p.rejected_messages = joined_messages(p.prompt_messages, rejected);
    return p;
  }
  const size_t most = std::min(chosen.size(), rejected.size());
  size_t n = 0;
  while (n < most && chosen[n] == rejected[n]) ++n;
  if (n == most) --n;  // the shorter list keeps a message
  p.prompt_messages = Json::array();
  for (size_t i = 0; i < n; ++i) p.prompt_messages.push_back(chosen[i]);
  p.chosen_messages = std::move(chosen), p.rejected_messages = std::move(rejected);
  return p;
}

// Refuses a question under another key, which would be ignored silently.
void refuse_other_question(const Json& r, const std::string& where) {
  if (r.contains("prompt")) return;
  for (const char* key : {"question", "query", "input", "user", "problem", "context", "source"})
    if (is_given(r, key))
      wrong_preference(fmt::format("no key 'prompt', but '{}'", key), where,
                       "the question of a pair of texts stands under 'prompt', or before both answers",
                       fmt::format("rename '{}' to 'prompt' (for a chat template to be used, to 'instruction')", key));
}

size_t shared_ids(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto n = static_cast<ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}

}  // namespace

bool is_conversation_of_preferences(const Json& record, const std::string& where) {
  if (!record.is_object()) wrong_preference("not a JSON object", where, "a record is an object");
  answer_of(record, "rejected", where);
  return !answer_of(record, "chosen", where).is_string() || question_key(record);
}

Preference read_preference(const Json& r, const std::string& where) {
  const bool lists = is_conversation_of_preferences(r, where);
  const char* question = question_key(r);
  const bool texts = !lists || (question && std::string_view(question) == "instruction");
  const char* form = texts ? "text" : question ? "message" : "list of messages";
  for (const char* key : {"chosen", "rejected"}) {
    const Json& v = r[key];
    if (!v.is_string() && !v.is_array() && !v.is_object())
      wrong_preference(fmt::format("'{}' is no answer", key), where,
                       fmt::format("an answer is a text, a message or a list of messages, this is of type {}", v.type_name()));
    if (texts ? !v.is_string() : !v.is_array() && !(question && v.is_object()))
      wrong_preference(fmt::format("'{}' is no {}", key, form), where,
                       fmt::format("both answers are {}, this is of type {}",
                                   texts      ? "texts"
                                   : question ? fmt::format("messages beside '{}'", question)
                                              : "lists of messages",
                                   v.type_name()));
    if (v.empty() || (v.is_string() && v.get_ref<const std::string&>().empty()))
      wrong_preference(fmt::format("'{}' is empty", key), where, "both answers say something",
                       fmt::format("fill in '{}', or leave the record out", key));
  }
  if (question && is_given(r, "prompt"))
    wrong_preference(fmt::format("'prompt' beside '{}'", question), where, "a pair has one question", "remove one of them");
  if (is_given(r, "prompt") && !r["prompt"].is_string() && !(lists && r["prompt"].is_array()))
    wrong_preference(fmt::format("'prompt' is no {}", form), where,
                     fmt::format("it has the type of the answers, this is of type {}", r["prompt"].type_name()));
  if (is_given(r, "chat_template_kwargs") && !r["chat_template_kwargs"].empty())
    wrong_preference("'chat_template_kwargs' of a record", where, "variables of the chat template are the same for all records",
                     "remove them, or set data.chat_template to a template that has them inside");
  if (lists) return texts ? alpaca_preference(r, where) : conversation(r, where);
  refuse_other_question(r, where);
  Preference p;
  p.chosen = r["chosen"].get<std::string>(), p.rejected = r["rejected"].get<std::string>();
  if (is_given(r, "prompt"))
    p.prompt = r["prompt"].get<std::string>();
  else
    extract_text_prompt(p);
  return p;
}

PairEncoder::PairEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat)
    : tokenizer_(tokenizer), chat_(std::move(chat)) {
  if (chat_) {
    end_ = end_of_answers(tokenizer, *chat_);
    return;
  }
  if (!tokenizer.special().eos)
    throw UserError("the tokenizer has no end token", "model.tokenizer", "answers of preferences end with one",
                    "name its eos_token in tokenizer_config.json, or write the records as lists of messages");
  end_ = {tokenizer.id_to_piece(*tokenizer.special().eos), *tokenizer.special().eos};
}

std::string PairEncoder::settings() const {
  return chat_ ? fmt::format("{} {}", checksum_text(chat_->fingerprint()), end_.id) : "text " + end_.text;
}

EncodedPair PairEncoder::encode(const Preference& p, const std::string& where) const {
  if (p.conversation != (chat_ != nullptr))
    throw UserError(p.conversation ? "a conversation among pairs of texts" : "texts among pairs of conversations", where,
                    "records of a source are alike", "make two sources of them");
  EncodedPair out;
  size_t chosen = 0, rejected = 0;  // ids of the prompt
  if (p.conversation) {
    for (const Json* m : {&p.chosen_messages, &p.rejected_messages}) check_roles(*chat_, *m, where);
    auto encode_answer = [&](const Json& messages, std::vector<int32_t>& ids) {
      const Json written = written_messages(*chat_, messages, p.tools, where);
      const std::string text = render_messages(*chat_, written, p.tools, false, where);
      ids = tokenizer_.encode(text, false);
      const size_t prompt =
          ids_before_message(tokenizer_, *chat_, written, p.tools, p.prompt_messages.size(), text, ids, where);
      append_missing_end(tokenizer_, end_, written.back(), text, ids);
      return prompt;
    };
    chosen = encode_answer(p.chosen_messages, out.chosen.ids);
    rejected = encode_answer(p.rejected_messages, out.rejected.ids);
  } else {
    auto ended = [&](const std::string& answer) { return answer.ends_with(end_.text) ? answer : answer + end_.text; };
    const std::vector<int32_t> prompt = tokenizer_.encode(p.prompt, true);
    out.chosen.ids = tokenizer_.encode(p.prompt + ended(p.chosen), true);
    out.rejected.ids = tokenizer_.encode(p.prompt + ended(p.rejected), true);
    chosen = shared_ids(prompt, out.chosen.ids), rejected = shared_ids(prompt, out.rejected.ids);
  }
  out.prompt = std::min(chosen, rejected);
  auto learn = [](EncodedChat& c, size_t from) {
    c.learned.assign(c.ids.size(), 1);
    std::fill_n(c.learned.begin(), from, uint8_t{0});
  };
  learn(out.chosen, p.conversation ? chosen : out.prompt), learn(out.rejected, p.conversation ? rejected : out.prompt);
  return out;
}

}  // namespace ravine

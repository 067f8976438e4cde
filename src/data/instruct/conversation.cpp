#include "data/instruct/conversation.h"

#include <map>

#include "base/error.h"
#include "base/text.h"
#include "text/chat/rendered_json.h"

namespace ravine {

namespace {

[[noreturn]] void wrong_record(const std::string& what, const std::string& where, const std::string& rule,
                               const std::string& fix = "correct the record") {
  throw UserError(what, where, rule, fix);
}

std::string in_small_letters(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

// Returns the text of a key. "" if the key is missing or null, and not `needed`.
std::string text_of(const Json& record, const char* key, const std::string& where, bool needed) {
  auto it = record.find(key);
  if (it == record.end() || it->is_null()) {
    if (!needed) return "";
    if (it != record.end())
      wrong_record(fmt::format("'{}' is null", key), where, "it must be a text",
                   fmt::format("fill in '{}', or leave the record out", key));
    std::vector<std::string> keys;
    for (const auto& [k, v] : record.items()) keys.push_back(k);
    std::string near = nearest(key, keys);
    wrong_record(
        fmt::format("no key '{}'", key), where,
        fmt::format("the record must have it, it has {}", keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "))),
        near.empty() ? fmt::format("add '{}' to the record", key)
                     : fmt::format("did you mean '{0}'? rename '{0}' to '{1}'", near, key));
  }
  if (!it->is_string())
    wrong_record(fmt::format("'{}' is no text", key), where, fmt::format("it must be a string, not {}", it->type_name()));
  return it->get<std::string>();
}

bool has_words(const std::string& text) { return text.find_first_not_of(" \t\r\n") != std::string::npos; }

void add_message(Conversation& c, const char* role, std::string text) {
  c.learned.push_back(std::string_view(role) == "assistant" && has_words(text));
  c.messages.push_back({{"role", role}, {"content", std::move(text)}});
}

// Reads a list of objects, a JSON text of such a list, or a list of JSON texts. Tables store rows with different
// members in this way. Null: none.
Json objects_of(const Json& record, const char* key, const char* of, const std::string& where) {
  auto it = record.find(key);
  if (it == record.end() || it->is_null() || (it->is_string() && it->get<std::string>().empty())) return nullptr;
  Json list = it->is_string() ? parse_rendered(it->get<std::string>(), fmt::format("{}: {}", where, key), Rendered::all) : *it;
  if (!list.is_array()) wrong_record(fmt::format("'{}' is no list", key), where, fmt::format("it must be a list of {}", of));
  for (Json& entry : list)
    if (entry.is_string() && entry.get_ref<const std::string&>().starts_with('{'))
      entry = parse_rendered(entry.get<std::string>(), fmt::format("{}: {}", where, key), Rendered::all);
  return list;
}

Conversation alpaca(const Json& r, const std::string& where) {
  Conversation c;
  if (std::string system = text_of(r, "system", where, false); !system.empty()) add_message(c, "system", system);
  if (auto h = r.find("history"); h != r.end() && !h->is_null()) {
    if (!h->is_array()) wrong_record("'history' is no list", where, "it must be a list of [question, answer]");
    for (const Json& turn : *h) {
      if (!turn.is_array() || turn.size() != 2 || !turn[0].is_string() || !turn[1].is_string())
        wrong_record("wrong entry of 'history'", where, "each must be [question, answer]");
      add_message(c, "user", turn[0].get<std::string>());
      add_message(c, "assistant", turn[1].get<std::string>());
    }
  }
  std::string question = text_of(r, "instruction", where, true), input = text_of(r, "input", where, false);
  if (!input.empty() && !question.empty()) question += '\n';
  question += input;
  add_message(c, "user", question);
  add_message(c, "assistant", text_of(r, "output", where, true));
  return c;
}

// Maps the speakers of ShareGPT to the roles of chat templates.
const std::map<std::string, const char*>& speakers() {
  static const std::map<std::string, const char*> roles{
      {"human", "user"},          {"user", "user"},         {"gpt", "assistant"},
      {"assistant", "assistant"}, {"chatgpt", "assistant"}, {"bing", "assistant"},
      {"bard", "assistant"},      {"model", "assistant"},   {"function_call", "assistant"},
      {"system", "system"},       {"observation", "tool"},  {"tool", "tool"}};
  return roles;
}

const char* role_of(const std::string& from, const std::string& where) {
  if (auto role = speakers().find(from); role != speakers().end()) return role->second;
  static const std::map<std::string, const char*> others{{"bot", "gpt"},      {"ai", "gpt"},         {"llm", "gpt"},
                                                         {"answer", "gpt"},   {"question", "human"}, {"person", "human"},
                                                         {"function", "tool"}};
  std::vector<std::string> known;
  for (const auto& [name, role] : speakers()) known.push_back(name);
  const std::string lower = in_small_letters(from);
  const auto other = others.find(lower);
  const std::string near = other != others.end() ? other->second : nearest(lower, known);
  wrong_record(fmt::format("unknown speaker '{}'", from), where,
               "speakers are human or user, gpt or assistant, system, function_call, observation or tool",
               near.empty() ? "write one of them" : fmt::format("did you mean '{}'?", near));
}

// Returns the first of two keys that the entry has: both spellings of a turn are used under both names of the list.
const char* first_of(const Json& entry, const char* usual, const char* other) {
  return !entry.contains(usual) && entry.contains(other) ? other : usual;
}

Conversation sharegpt(const Json& r, const std::string& where) {
  Conversation c;
  c.tools = read_tools(r, where);
  if (std::string system = text_of(r, "system", where, false); !system.empty()) add_message(c, "system", system);
  auto list = r.find("conversations");
  if (list == r.end() || !list->is_array())
    wrong_record("no list 'conversations'", where, "it must be a list of {\"from\", \"value\"}");
  for (const Json& m : *list) {
    if (!m.is_object()) wrong_record("wrong entry of 'conversations'", where, "each must be {\"from\", \"value\"}");
    const char* role = role_of(text_of(m, first_of(m, "from", "role"), where + ": conversations", true), where);
    add_message(c, role, text_of(m, first_of(m, "value", "content"), where + ": conversations", true));
  }
  return c;
}

Conversation messages(const Json& r, const std::string& where) {
  Conversation c;
  c.tools = read_tools(r, where);
  auto list = r.find("messages");
  if (list == r.end() || !list->is_array())
    wrong_record("no list 'messages'", where, "it must be a list of {\"role\", \"content\"}");
  for (const Json& given : *list) {
    if (!given.is_object()) wrong_record("wrong entry of 'messages'", where, "each must be {\"role\", \"content\"}");
    Json m = given;
    if (!m.contains("role") && m.contains("from"))
      m = {{"role", role_of(text_of(given, "from", where + ": messages", true), where)},
           {"content", given.contains("value") ? given["value"] : Json()}};
    std::string role = text_of(m, "role", where + ": messages", true), text;
    Json content = m.contains("content") ? Json(m["content"]) : Json();
    if (content.is_array()) {
      for (const Json& part : content) {
        if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") || !part["text"].is_string())
          wrong_record("wrong part of 'content'", where, "only parts {\"type\": \"text\", \"text\"} are read");
        text += part["text"].get<std::string>();
      }
    } else if (content.is_string()) {
      text = content.get<std::string>();
    } else if (!content.is_null() || role != "assistant") {
      wrong_record("'content' is no text", where, "it must be a string");
    }
    m["content"] = text;
    if (m.contains("tool_calls"))
      m["tool_calls"] =
          objects_of(m, "tool_calls", "calls of tools", fmt::format("{}, message {}", where, c.messages.size() + 1));
    // A table has every field in every message; null means that the message does not have the field.
    for (auto field = m.begin(); field != m.end();)
      if (field->is_null())
        field = m.erase(field);
      else
        ++field;
    Json weight = m.contains("weight") ? Json(m["weight"]) : Json(1);
    if (weight != 0 && weight != 1) wrong_record("wrong 'weight'", where, "it must be 0 or 1");
    m.erase("weight");
    const bool has_content = has_words(text) || m.size() > (m.contains("name") ? 3U : 2U);  // or calls tools, or thinks
    c.messages.push_back(m);
    c.learned.push_back(role == "assistant" && weight != 0 && has_content);
  }
  return c;
}

}  // namespace

Json read_tools(const Json& record, const std::string& where) {
  Json tools = objects_of(record, "tools", "tools", where);
  return tools.empty() ? Json() : tools;
}

std::optional<ChatFormat> chat_format(RecordFormat format) { return value_named<ChatFormat>(name(format)); }

std::optional<ChatFormat> detect_chat_format(const Json& r) {
  if (!r.is_object()) return std::nullopt;
  if (r.contains("messages") && r["messages"].is_array()) return ChatFormat::messages;
  if (r.contains("conversations") && r["conversations"].is_array()) return ChatFormat::sharegpt;
  if (r.contains("instruction") && r.contains("output")) return ChatFormat::alpaca;
  return std::nullopt;
}

namespace {

// Refuses questions and answers under other keys than Alpaca's.
void refuse_questions(const Json& record, const std::string& where) {
  static constexpr std::pair<const char*, const char*> kPairs[] = {{"instruction", "output"},
                                                                   {"instruction", "response"},
                                                                   {"instruction", "answer"},
                                                                   {"instruction", "completion"},
                                                                   {"question", "answer"},
                                                                   {"question", "response"},
                                                                   {"question", "output"},
                                                                   {"prompt", "completion"},
                                                                   {"prompt", "response"},
                                                                   {"prompt", "answer"},
                                                                   {"prompt", "output"},
                                                                   {"query", "response"},
                                                                   {"query", "answer"},
                                                                   {"problem", "solution"},
                                                                   {"problem", "answer"},
                                                                   {"user", "assistant"},
                                                                   {"input", "output"},
                                                                   {"prompt", "chosen"},
                                                                   {"question", "chosen"},
                                                                   {"input", "target"},
                                                                   {"source", "target"},
                                                                   {"指令", "输出"},
                                                                   {"指令", "回答"},
                                                                   {"问题", "回答"},
                                                                   {"问题", "答案"},
                                                                   {"提问", "回答"},
                                                                   {"问", "答"},
                                                                   {"输入", "输出"},
                                                                   {"用户", "助手"}};
  std::map<std::string, std::string> texts;  // by their keys in lower case
  for (const auto& [key, value] : record.items())
    if (value.is_string()) texts.emplace(in_small_letters(key), key);
  if (texts.contains("text")) return;
  for (const auto& [question, answer] : kPairs) {
    const auto q = texts.find(question), a = texts.find(answer);
    if (q == texts.end() || a == texts.end()) continue;
    std::string rename;
    for (const auto& [from, to] : {std::pair(q->second, "instruction"), std::pair(a->second, "output")})
      if (from != to) rename += fmt::format("{}'{}' to '{}'", rename.empty() ? "rename " : " and ", from, to);
    const bool preference = std::string_view(answer) == "chosen";
    throw UserError(
        "questions and answers under other keys", where,
        fmt::format("a conversation has 'instruction' and 'output', the record has '{}' and '{}'", q->second, a->second),
        (preference ? "set train.objective=dpo to learn which answer is preferred; or " : "") + rename +
            (preference ? ": then the chosen answers are learned (the rejected are not used)"
                        : ": then the answers are learned"));
  }
}

// Refuses one object around the lists of records.
void refuse_wrapped(const Json& record, const std::string& where) {
  std::vector<std::string> lists;
  for (const auto& [key, value] : record.items())
    if (value.is_array() && !value.empty() && value.front().is_object()) lists.push_back(key);
  if (lists.empty() || record.contains("messages") || record.contains("conversations")) return;
  if (!nearest("messages", lists).empty() || !nearest("conversations", lists).empty()) return;
  throw UserError("lists of records under a key", where, "a file of records is the list itself, or one record per line",
                  fmt::format("the records are under '{}': write {} as a file of its own", fmt::join(lists, "' and '"),
                              lists.size() > 1 ? "each such list" : "that list"));
}

constexpr const char* kMessages =
    R"({"messages": [{"role": "user", "content": ".."}, {"role": "assistant", "content": ".."}]})";

// Refuses turns of other formats: alternating texts, questions and answers in one entry, a list as text.
void refuse_turns(const Json& record, const std::string& where) {
  for (const char* key : {"messages", "conversations"})
    if (const auto text = record.find(key); text != record.end() && text->is_string()) {
      const Json list = Json::parse(text->get<std::string>(), nullptr, false);
      if (list.is_array() && !list.empty() && list.front().is_object())
        throw UserError(
            fmt::format("'{}' is a text that holds a list", key), where, "it must be the list itself",
            fmt::format("write \"{0}\": [..] without quotes around the list, as json.loads makes it of \"{0}\"", key));
      if (record.size() == 1)
        throw UserError(fmt::format("'{}' is a text", key), where, "it is the list of the turns of a conversation",
                        fmt::format("write {}; plain text stands under 'text'", kMessages));
    }
  const bool has_text = std::any_of(record.begin(), record.end(),
                                    [](const Json& v) { return v.is_string() && v.get_ref<const std::string&>().size() > 40; });
  for (const auto& [key, value] : record.items()) {
    if (!value.is_array() || value.empty()) continue;
    if (value.front().is_object() && value.front().contains("input") && value.front().contains("output"))
      throw UserError(fmt::format("'{}' holds pairs of input and output", key), where,
                      "each turn of a conversation has its own entry", fmt::format("write each as {}", kMessages));
    static const std::vector<std::string> kTurns = {"dialog",       "dialogue",      "dialogs",  "dialogues", "turns",
                                                    "conversation", "conversations", "messages", "chat"};
    if (!has_text && value.front().is_string() &&
        std::find(kTurns.begin(), kTurns.end(), in_small_letters(key)) != kTurns.end())
      throw UserError(fmt::format("the turns under '{}' have no speakers", key), where,
                      "each turn of a conversation says who speaks", fmt::format("write them as {}", kMessages));
  }
}

}  // namespace

void refuse_chat_slip(const Json& record, const std::string& where) {
  if (!record.is_object() || detect_chat_format(record)) return;
  std::vector<std::string> keys;
  for (const auto& [key, value] : record.items()) keys.push_back(key);
  auto refuse = [&](const char* key, ChatFormat form, auto&& fits) {
    const std::string near = record.contains(key) ? "" : nearest(key, keys);
    if (!near.empty() && fits(record[near]))
      throw UserError(fmt::format("no key '{}'", key), where,
                      fmt::format("a conversation ({}) has it; '{}' is nearly that", name(form), near),
                      fmt::format("rename '{}' to '{}'", near, key));
  };
  auto is_text = [](const Json& v) { return v.is_string(); };
  auto is_list = [](const Json& v) { return v.is_array(); };
  refuse_questions(record, where);
  if (record.contains("chosen") && record.contains("rejected"))
    throw UserError("pairs of answers", where, "they are neither text nor conversations",
                    "set train.objective=dpo to learn which answer is preferred; to learn the chosen ones alone, write them as "
                    "conversations ('instruction' and 'output')");
  refuse_wrapped(record, where);
  refuse_turns(record, where);
  if (record.contains("instruction")) refuse("output", ChatFormat::alpaca, is_text);
  if (record.contains("output")) refuse("instruction", ChatFormat::alpaca, is_text);
  refuse("messages", ChatFormat::messages, is_list);
  refuse("conversations", ChatFormat::sharegpt, is_list);
}

Conversation read_conversation(const Json& record, ChatFormat format, const std::string& where,
                               const std::string& option_name) {
  if (!record.is_object()) wrong_record("not a JSON object", where, "a record is an object");
  const char* own = format == ChatFormat::alpaca     ? "instruction"
                    : format == ChatFormat::sharegpt ? "conversations"
                                                     : "messages";
  if (const auto other = detect_chat_format(record); other && *other != format && !record.contains(own))
    wrong_record(fmt::format("a conversation of the form {}, not {}", name(*other), name(format)), where,
                 "the records of a file are of one form",
                 option_name.starts_with("--") ? fmt::format("write {} {}", option_name, name(*other))
                                               : fmt::format("set {}={} if all are like this one, else make two files of them",
                                                             option_name, name(*other)));
  if (!record.contains(own)) refuse_chat_slip(record, where);
  Conversation c = format == ChatFormat::alpaca     ? alpaca(record, where)
                   : format == ChatFormat::sharegpt ? sharegpt(record, where)
                                                    : messages(record, where);
  if (c.messages.empty()) wrong_record("an empty conversation", where, "it must have messages");
  return c;
}

}  // namespace ravine

#include "text/chat/call_arguments.h"

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/chat/rendered_json.h"
#include "text/jinja/value.h"

namespace ravine {

namespace {

struct Call {
  Json* arguments;
  std::string where;  // "message 2, tool_calls[0].function.arguments"
};

std::vector<Call> calls_of(Json& conversation) {
  std::vector<Call> calls;
  if (!conversation.contains("messages") || !conversation["messages"].is_array()) return calls;
  size_t number = 0;
  for (Json& message : conversation["messages"]) {
    ++number;
    auto add = [&](Json& of, const std::string& member) {
      if (of.is_object() && of.contains("arguments"))
        calls.push_back({&of["arguments"], fmt::format("message {}, {}.arguments", number, member)});
    };
    if (!message.is_object()) continue;
    if (message.contains("tool_calls") && message["tool_calls"].is_array()) {
      size_t k = 0;
      for (Json& call : message["tool_calls"]) {
        const std::string member = fmt::format("tool_calls[{}]", k++);
        if (call.is_object() && call.contains("function") && call["function"].is_object())
          add(call["function"], member + ".function");
        else
          add(call, member);
      }
    }
    if (message.contains("function_call")) add(message["function_call"], "function_call");
  }
  return calls;
}

constexpr const char* kName = "ravine_name";
constexpr const char* kValue = "ravine value";
constexpr const char* kText = R"({"ravine_name": "ravine value"})";

bool writes(const ChatTemplate& chat, Json conversation, bool text) {
  for (const Call& call : calls_of(conversation)) *call.arguments = text ? Json(kText) : Json{{kName, kValue}};
  try {
    const std::string all = chat.render(conversation);
    auto has = [&](const std::string& words) { return all.find(words) != std::string::npos; };
    return text ? has(kText) : has(kName) && has(kValue) && !has(fmt::format("{{'{}'", kName));
  } catch (const jinja::TemplateError&) {
    return false;
  }
}

Json map_of(const Call& call) {
  std::string wrong;
  if (const std::string member = member_beyond_64_bits(call.arguments->get_ref<const std::string&>()); !member.empty())
    jinja::raise("{}.{}: a whole number beyond 64 bits, which the template would write with other digits; write it as a text",
                 call.where, member);
  try {
    if (Json map = parse_json(call.arguments->get<std::string>(), call.where); map.is_object()) return map;
    wrong = "a JSON text that is no object";
  } catch (const UserError&) {
    wrong = "not valid JSON";
  }
  jinja::raise("{}: {}; the template takes a map of the arguments, or an object as text", call.where, wrong);
}

std::string text_of(const Json& map) {
  jinja::Budget budget;
  return jinja::to_json(jinja::from_json(map), {}, budget);
}

}  // namespace

Json with_written_arguments(const ChatTemplate& chat, Json conversation) {
  const std::vector<Call> calls = calls_of(conversation);
  if (calls.empty()) return conversation;
  for (const Call& call : calls) {
    Json& given = *call.arguments;
    if (given.is_null() ||
        (given.is_string() && given.get_ref<const std::string&>().find_first_not_of(" \t\r\n") == std::string::npos))
      given = Json::object();
    if (!given.is_string() && !given.is_object())
      jinja::raise("{}: a {}; arguments are a map, or an object as JSON text", call.where, given.type_name());
  }
  const Json given = conversation;
  std::optional<bool> known[2];
  auto takes = [&](bool text) {
    if (!known[text]) known[text] = writes(chat, given, text);
    return *known[text];
  };
  for (const Call& call : calls) {
    const bool text = call.arguments->is_string();
    if (takes(text)) continue;
    if (text)  // also if no form appears: the template may read single arguments by their names
      *call.arguments = map_of(call);
    else if (takes(true))
      *call.arguments = Json(text_of(*call.arguments));
  }
  return conversation;
}

}  // namespace ravine

// The arguments of calls of tools, in the form that a chat template writes.
#pragma once
#include "base/json.h"
#include "text/chat/chat_template.h"

namespace ravine {

// The conversation, {"messages": [..], ..} as ChatTemplate::render takes it, with the arguments of its calls
// (tool_calls[].function.arguments, tool_calls[].arguments, function_call.arguments) in a form that the template writes. Text is
// JSON text, as OpenAI's API has it. A form that the template writes stays: text that appears as it is, a map whose names and
// values appear otherwise than in Python's spelling. Else text becomes a map, and a map the text that tojson makes of it if the
// template writes that. Which forms are written is seen at other arguments in the place of all. Null and blank text stand for no arguments. Text that is no
// JSON object where the template takes a map alone, and arguments that are neither, are a jinja::TemplateError that names the
// message and the member.
Json with_written_arguments(const ChatTemplate& chat, Json conversation);

}  // namespace ravine

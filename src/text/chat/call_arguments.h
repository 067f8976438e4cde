// Converts the arguments of tool calls to the form that a chat template writes.
#pragma once
#include "base/json.h"
#include "text/chat/chat_template.h"

namespace ravine {

// Returns a conversation, {"messages": [..], ..} as for ChatTemplate::render, with the arguments of its tool calls
// converted to a form that the template writes correctly: a JSON text, or a map. Arguments are in
// tool_calls[].function.arguments, tool_calls[].arguments and function_call.arguments.
// A form that the template writes is kept: a text that appears unchanged, or a map whose names and values appear in
// another notation than Python's. Otherwise a text becomes a map. A map becomes a JSON text (tojson), if the template
// writes texts. To find the forms that the template writes, it is rendered with test arguments in place of all
// arguments.
// Null and blank text mean no arguments. If the template requires a map, a text that is not a JSON object is a
// jinja::TemplateError that names the message and the member. So are arguments that are neither a text nor a map.
Json with_written_arguments(const ChatTemplate& chat, Json conversation);

}  // namespace ravine

// Converts the arguments of tool calls to the form that a chat template writes.
#pragma once
#include "base/json.h"
#include "text/chat/chat_template.h"

namespace ravine {

// Returns the conversation, {"messages": [..], ..} as for ChatTemplate::render, with the arguments of its calls in a
// form that the template writes. Arguments are in tool_calls[].function.arguments, tool_calls[].arguments and
// function_call.arguments; a text is JSON text, as in OpenAI's API.
// A form that the template writes is kept: a text that appears unchanged, or a map whose names and values appear in
// another notation than Python's. Otherwise a text becomes a map. A map becomes the text of tojson, if the template
// writes texts. Which forms the template writes is tested with other arguments in place of all.
// Null and blank text mean no arguments. If the template requires a map, a text that is not a JSON object is a
// jinja::TemplateError that names the message and the member. So are arguments that are neither a text nor a map.
Json with_written_arguments(const ChatTemplate& chat, Json conversation);

}  // namespace ravine

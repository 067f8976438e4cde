// Parses JSON that a chat template renders, whose numbers must keep their spelling.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace ravine {

// The part of a JSON record that a chat template renders. conversation: the members messages, conversations, tools,
// documents, prompt, chosen and rejected. all: the whole object.
enum class Rendered : uint8_t { conversation, all };

// Parses JSON like parse_json(), but throws a UserError for a whole number beyond 64 bits in the part that a template
// renders (`rendered`). It names `where` and the member ("messages[1].tool_calls[0].function.arguments.n"). Json would
// store only the nearest f64, so the template would write another number.
Json parse_rendered(std::string_view text, const std::string& where, Rendered rendered = Rendered::conversation);

// Returns the path of the first member of a JSON text whose value is a whole number beyond 64 bits ("messages[1].n").
// Returns "" if there is none, or if the text is not JSON. Only the part `rendered` is searched.
std::string member_beyond_64_bits(std::string_view text, Rendered rendered = Rendered::all);

}  // namespace ravine

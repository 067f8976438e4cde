// JSON that a chat template renders, whose numbers must come out as they were written.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace ravine {

// A conversation as it stands in files of records: messages, conversations, tools, documents, prompt, chosen and rejected are
// rendered; other members are not looked at. Or an object of which all is rendered.
enum class Rendered : uint8_t { conversation, all };

// As parse_json. A whole number beyond 64 bits in what is rendered is a UserError that names `where` and the member
// ("messages[1].tool_calls[0].function.arguments.n"): Json has only the nearest double for it, of other digits.
Json parse_rendered(std::string_view text, const std::string& where, Rendered rendered = Rendered::conversation);

// The member of a JSON text that holds the first such number; "" if none does, or if the text is no JSON.
std::string member_beyond_64_bits(std::string_view text, Rendered rendered = Rendered::all);

}  // namespace ravine

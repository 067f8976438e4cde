// JSON as Python's json.dumps writes it: beside what JSON has it holds NaN, Infinity and -Infinity.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ravine {

// parse_json, where these three, as values, come out as the texts "NaN", "Infinity" and "-Infinity".
Json parse_python_json(std::string_view text, const std::string& where);
// read_json in the same way.
Json read_python_json(const std::string& path, int64_t limit);

}  // namespace ravine

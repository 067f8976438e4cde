// JSON documents (nlohmann, keys in file order). Large or untrusted JSON lines are parsed with simdjson instead
// (data/).
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// Instantiated once, in json.cpp.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace ravine {

using Json = nlohmann::ordered_json;

// The maximum nesting depth of a document.
constexpr int kJsonDepth = 64;

// Parses `text`. A syntax error, or nesting deeper than kJsonDepth, is a UserError that names `where`. If a key occurs
// twice in an object, the last value is used. Cost: at most 64 bytes of memory per byte of text, and O(n log n) time
// for any number of keys. A lookup by key is linear in the keys of the object. Code that reads an object of many keys
// iterates over items() instead.
Json parse_json(std::string_view text, const std::string& where);

// Reads and parses a file of at most `limit` bytes. Errors name the path.
Json read_json(const std::string& path, int64_t limit = int64_t{16} << 20);

// Returns the value of `key` in a JSON object from a file. T is bool, int64_t, double, std::string or Json (an object).
// A value of another type is a UserError that names `where`, the key and the required type. So is an `object` that is
// no JSON object. If the key is missing, field() throws a UserError and field_or() returns `otherwise`.
template <class T>
T field(const Json& object, const std::string& key, const std::string& where);
template <class T>
T field_or(const Json& object, const std::string& key, const std::string& where, T otherwise);
// Returns the value of `key` in `object`, which must be an array; else a UserError that names `where` and the key.
const Json& array_field(const Json& object, const std::string& key, const std::string& where);

}  // namespace ravine

// JSON documents (nlohmann, keys in file order). Large or hostile streams of lines go through simdjson instead (data/).
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// Compiled once, in json.cpp.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace ravine {

using Json = nlohmann::ordered_json;

constexpr int kJsonDepth = 64;

// Parses `text`; a syntax error is a UserError naming `where`. Nesting deeper than kJsonDepth is refused; of equal keys the
// last value counts. At most 64 bytes of memory per byte of text, n log n time whatever the number of keys; but a key is looked
// up in time linear in the keys of its object, so whoever reads an object of many keys walks it (items()) instead of asking key
// by key.
Json parse_json(std::string_view text, const std::string& where);

// Reads and parses a file of at most `limit` bytes; errors name the path.
Json read_json(const std::string& path, int64_t limit = int64_t{16} << 20);

// A field of a foreign object: T is bool, int64_t, double, std::string or Json (an object). One of another type (or, for
// field(), none, or no object at all) is a UserError that names `where`, the key and what it must be.
template <class T>
T field(const Json& object, const std::string& key, const std::string& where);
template <class T>
T field_or(const Json& object, const std::string& key, const std::string& where, T otherwise);
const Json& array_field(const Json& object, const std::string& key, const std::string& where);

}  // namespace ravine

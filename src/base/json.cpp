#include "base/json.h"

#include "base/error.h"
#include "base/read_text.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace ravine {

Json parse_json(std::string_view text, const std::string& where) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char ch = text[i];
    if (quoted) {
      if (ch == '\\') ++i;
      if (ch == '"') quoted = false;
    } else if (ch == '"') {
      quoted = true;
    } else if (ch == '[' || ch == '{') {
      if (++depth > 64) throw UserError("JSON is nested too deeply", where, "at most 64 levels", "check that this is the file you meant");
    } else if (ch == ']' || ch == '}') {
      --depth;
    }
  }
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    std::string why = e.what();
    if (size_t at = why.find("] "); at != std::string::npos) why = why.substr(at + 2);
    throw UserError("not valid JSON", where, why, "repair or replace the file");
  }
}

Json read_json(const std::string& path, int64_t limit) {
  return parse_json(read_text(path, limit, "a JSON file"), path);
}

namespace {

[[noreturn]] void wrong_field(const std::string& key, const std::string& where, const std::string& rule) {
  throw UserError(fmt::format("field '{}' of the wrong kind", key), where, rule, "repair or replace the file");
}

const Json* find_field(const Json& object, const std::string& key, const std::string& where) {
  if (!object.is_object()) throw UserError("not a JSON object", where, fmt::format("a field '{}' is looked for", key), "repair or replace the file");
  auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

bool read_value(const Json& v, bool& out) { return v.is_boolean() && (out = v.get<bool>(), true); }
bool read_value(const Json& v, int64_t& out) {
  return v.is_number_integer() && !(v.is_number_unsigned() && v.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) && (out = v.get<int64_t>(), true);
}
bool read_value(const Json& v, double& out) { return v.is_number() && (out = v.get<double>(), true); }
bool read_value(const Json& v, std::string& out) { return v.is_string() && (out = v.get<std::string>(), true); }
bool read_value(const Json& v, Json& out) { return v.is_object() && (out = v, true); }
const char* kind_of(const bool*) { return "true or false"; }
const char* kind_of(const int64_t*) { return "a whole number of 64 bits"; }
const char* kind_of(const double*) { return "a number"; }
const char* kind_of(const std::string*) { return "a text"; }
const char* kind_of(const Json*) { return "an object"; }

}  // namespace

template <class T>
T field_or(const Json& object, const std::string& key, const std::string& where, T otherwise) {
  const Json* v = find_field(object, key, where);
  if (v && !read_value(*v, otherwise)) wrong_field(key, where, fmt::format("it must be {}, got {}", kind_of(&otherwise), v->type_name()));
  return otherwise;
}

template <class T>
T field(const Json& object, const std::string& key, const std::string& where) {
  if (!find_field(object, key, where)) throw UserError(fmt::format("field '{}' is missing", key), where, fmt::format("it must be {}", kind_of(static_cast<T*>(nullptr))), "repair or replace the file");
  return field_or<T>(object, key, where, T{});
}

const Json& array_field(const Json& object, const std::string& key, const std::string& where) {
  const Json* v = find_field(object, key, where);
  if (!v || !v->is_array()) wrong_field(key, where, fmt::format("it must be an array, got {}", v ? v->type_name() : "none"));
  return *v;
}

template bool field(const Json&, const std::string&, const std::string&);
template int64_t field(const Json&, const std::string&, const std::string&);
template double field(const Json&, const std::string&, const std::string&);
template std::string field(const Json&, const std::string&, const std::string&);
template Json field(const Json&, const std::string&, const std::string&);
template bool field_or(const Json&, const std::string&, const std::string&, bool);
template int64_t field_or(const Json&, const std::string&, const std::string&, int64_t);
template double field_or(const Json&, const std::string&, const std::string&, double);
template std::string field_or(const Json&, const std::string&, const std::string&, std::string);
template Json field_or(const Json&, const std::string&, const std::string&, Json);

}  // namespace ravine

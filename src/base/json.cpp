#include "base/json.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/read_text.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace ravine {

namespace {

// Builds a document from parser events. The builder of nlohmann compares each key with all earlier keys, which is
// quadratic. This builder finds equal keys once per object, at the end of the object.
class JsonBuilder final : public nlohmann::json_sax<Json> {
 public:
  JsonBuilder(Json& root, const std::string& where) : root_(root), where_(where) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(number_integer_t v) override { return put(v); }
  bool number_unsigned(number_unsigned_t v) override { return put(v); }
  bool number_float(number_float_t v, const string_t&) override { return put(v); }
  bool string(string_t& v) override { return put(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool key(string_t& v) override {
    key_ = std::move(v);
    return true;
  }
  bool end_object() override {
    settle(open_.back()->get_ref<Json::object_t&>());
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    std::string why = e.what();
    if (size_t at = why.find("] "); at != std::string::npos) why = why.substr(at + 2);
    if (open_.empty() && root_.is_null())
      throw UserError("not valid JSON", where_,
                      why.find("unexpected end of input") != std::string::npos
                          ? "there is nothing in it"
                          : "it does not begin as JSON does: it is of another kind",
                      "name a JSON file");
    constexpr size_t kShown = 300;  // the reason may quote a string as long as the file
    if (why.size() > kShown) why = why.substr(0, kShown / 2) + " .. " + why.substr(why.size() - kShown / 2);
    const bool quote = why.find("'{''") != std::string::npos;
    throw UserError(
        "not valid JSON", where_, quote ? "keys and texts of JSON stand in double quotes" : why,
        quote ? "write {\"key\": \"text\"}, as json.dumps does, not {'key': 'text'}" : "repair or replace the file");
  }

 private:
  Json& append(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& in = *open_.back();
    if (in.is_array()) return in.get_ref<Json::array_t&>().emplace_back(std::move(value));
    auto& fields = in.get_ref<Json::object_t&>();
    static_cast<Json::object_t::Container&>(fields).emplace_back(std::move(key_), std::move(value));
    return fields.back().second;
  }
  template <class T>
  bool put(T&& value) {
    append(Json(std::forward<T>(value)));
    return true;
  }
  bool open(Json container) {
    if (open_.size() >= kJsonDepth)
      throw UserError("JSON is nested too deeply", where_, fmt::format("at most {} levels", kJsonDepth),
                      "check that this is the file you meant");
    open_.push_back(&append(std::move(container)));
    return true;
  }
  // Merges equal keys: the first one's position, the last one's value.
  static void settle(Json::object_t& object) {
    Json::object_t::Container& fields = object;
    std::vector<size_t> order(fields.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const int c = fields[a].first.compare(fields[b].first);
      return c != 0 ? c < 0 : a < b;
    });
    std::vector<bool> gone(fields.size());
    bool any = false;
    for (size_t i = 0, first = 0; i + 1 < order.size(); ++i) {
      if (fields[order[i + 1]].first != fields[order[i]].first) {
        first = i + 1;
        continue;
      }
      fields[order[first]].second = std::move(fields[order[i + 1]].second);
      gone[order[i + 1]] = any = true;
    }
    if (!any) return;
    Json::object_t kept;
    Json::object_t::Container& into = kept;
    for (size_t i = 0; i < fields.size(); ++i)
      if (!gone[i]) into.emplace_back(fields[i].first, std::move(fields[i].second));
    object = std::move(kept);
  }

  Json& root_;
  const std::string& where_;
  std::vector<Json*> open_;  // open containers, outermost first; only the last one grows, so the pointers stay valid
  std::string key_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  Json root;
  JsonBuilder builder(root, where);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return root;
}

Json read_json(const std::string& path, int64_t limit) { return parse_json(read_text(path, limit, "a JSON file"), path); }

namespace {

[[noreturn]] void wrong_field(const std::string& key, const std::string& where, const std::string& rule) {
  throw UserError(fmt::format("field '{}' of the wrong kind", key), where, rule, "repair or replace the file");
}

const Json* find_field(const Json& object, const std::string& key, const std::string& where) {
  if (!object.is_object())
    throw UserError("not a JSON object", where, fmt::format("it must be an object with the field '{}'", key),
                    "repair or replace the file");
  auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

bool read_value(const Json& v, bool& out) { return v.is_boolean() && (out = v.get<bool>(), true); }
bool read_value(const Json& v, int64_t& out) {
  return v.is_number_integer() && !(v.is_number_unsigned() && v.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) &&
         (out = v.get<int64_t>(), true);
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
  if (v && !read_value(*v, otherwise))
    wrong_field(key, where, fmt::format("it must be {}, got {}", kind_of(&otherwise), v->type_name()));
  return otherwise;
}

template <class T>
T field(const Json& object, const std::string& key, const std::string& where) {
  if (!find_field(object, key, where))
    throw UserError(fmt::format("field '{}' is missing", key), where,
                    fmt::format("it must be {}", kind_of(static_cast<T*>(nullptr))), "repair or replace the file");
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

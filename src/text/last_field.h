// Reads fields of JSON that simdjson has parsed.
#pragma once
#include <simdjson.h>

#include <string_view>

namespace ravine {

// True if `object` has a field `key`; `value` receives its value. Of equal keys the last one is used, as in base/json.h
// and Python; simdjson's at_key() uses the first one.
inline bool last_field(simdjson::dom::object object, std::string_view key, simdjson::dom::element& value) {
  bool found = false;
  for (const auto field : object)
    if (field.key == key) value = field.value, found = true;
  return found;
}

}  // namespace ravine

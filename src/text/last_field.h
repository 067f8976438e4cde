// Fields of JSON that simdjson has read.
#pragma once
#include <simdjson.h>

#include <string_view>

namespace ravine {

// Whether `object` has a field `key`; `value` is then its value. Of equal keys the last counts, as in base/json.h and Python;
// simdjson's at_key takes the first.
inline bool last_field(simdjson::dom::object object, std::string_view key, simdjson::dom::element& value) {
  bool found = false;
  for (const auto field : object)
    if (field.key == key) value = field.value, found = true;
  return found;
}

}  // namespace ravine

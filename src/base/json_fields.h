// Fast insertion into JSON objects of many keys.
#pragma once
#include <string>
#include <utility>

#include "base/json.h"

namespace ravine {

// Appends `key` with `value` to `object` without a lookup, which would be linear in the number of keys. `key` must not
// be in `object` yet.
inline void append_field(Json& object, std::string key, Json value) {
  Json::object_t::Container& fields = object.get_ref<Json::object_t&>();
  fields.emplace_back(std::move(key), std::move(value));
}

}  // namespace ravine

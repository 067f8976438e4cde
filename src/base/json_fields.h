// Objects of many keys: a key is looked up in time linear in the keys, so those that are known to be new are put behind the
// others unseen.
#pragma once
#include <string>
#include <utility>

#include "base/json.h"

namespace ravine {

// `key` is not in `object` yet.
inline void append_field(Json& object, std::string key, Json value) {
  Json::object_t::Container& fields = object.get_ref<Json::object_t&>();
  fields.emplace_back(std::move(key), std::move(value));
}

}  // namespace ravine

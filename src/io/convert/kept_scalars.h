// Additional state of Ravine's runs in checkpoints of other programs (position in blended data, state of a schedule).
// The files store the state as JSON under "ravine"; a run that resumes with the same batch size restores it.
#pragma once
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "files/pickle.h"

namespace ravine {

inline constexpr const char* kOwnScalars = "ravine";
inline constexpr const char* kKeptScalars[] = {"tokens",          "data",   "loss_scale", "schedule",
                                               "spikes_in_a_row", "window", "seed",       "sum_leaves"};
inline constexpr const char* kKeptOptions = "options";  // key of the run's options: compared, not restored

inline Json kept_scalars(const Json& scalars) {
  Json out = Json::object();
  for (const char* key : kKeptScalars)
    if (const auto it = scalars.find(key); it != scalars.end()) out[key] = *it;
  if (const auto it = scalars.find(kKeptOptions); it != scalars.end()) out[kKeptOptions] = *it;
  return out;
}

// Parses the scalars that a run of Ravine stored as text in a file of another program. The text may be anything; null
// if it is no JSON object.
inline Json kept_scalars_of(std::string_view text) try {
  Json kept = parse_json(text, kOwnScalars);
  return kept.is_object() ? kept : Json();
} catch (const UserError&) {
  return Json();
}

// Returns the scalars that a run of Ravine stored in a torch file; null if there are none.
inline Json kept_scalars_in(const Pickle& p) {
  const auto v = p.find(p.root(), kOwnScalars);
  const auto text = v ? p.text(*v) : std::nullopt;
  return text ? kept_scalars_of(*text) : Json();
}

// Copies the kept scalars into `scalars`; they override the values of the other program. `kept` may be anything.
inline void take_kept_scalars(const Json& kept, Json& scalars) {
  if (!kept.is_object()) return;
  Json own = kept_scalars(kept);
  own.erase(kKeptOptions);
  scalars.update(own);
}

}  // namespace ravine

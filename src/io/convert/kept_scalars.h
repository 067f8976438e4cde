// What a run of ours keeps in its checkpoints beyond other programs' (its place in blended data, the state of a schedule): it goes
// along in their files, as JSON under "ravine", and comes back where the run goes on with the same batch.
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
inline constexpr const char* kKeptOptions = "options";  // of the run: compared with, not taken

inline Json kept_scalars(const Json& scalars) {
  Json out = Json::object();
  for (const char* key : kKeptScalars)
    if (const auto it = scalars.find(key); it != scalars.end()) out[key] = *it;
  if (const auto it = scalars.find(kKeptOptions); it != scalars.end()) out[kKeptOptions] = *it;
  return out;
}

// Of their text in a file, which may be anything; null: nothing is kept.
inline Json kept_scalars_of(std::string_view text) try {
  Json kept = parse_json(text, kOwnScalars);
  return kept.is_object() ? kept : Json();
} catch (const UserError&) {
  return Json();
}

// What a torch file keeps of them; null: nothing.
inline Json kept_scalars_in(const Pickle& p) {
  const auto v = p.find(p.root(), kOwnScalars);
  const auto text = v ? p.text(*v) : std::nullopt;
  return text ? kept_scalars_of(*text) : Json();
}

// Into `scalars`, what another program has written there too: ours counts. `kept` may be anything.
inline void take_kept_scalars(const Json& kept, Json& scalars) {
  if (!kept.is_object()) return;
  Json own = kept_scalars(kept);
  own.erase(kKeptOptions);
  scalars.update(own);
}

}  // namespace ravine

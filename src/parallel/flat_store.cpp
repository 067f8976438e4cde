#include "parallel/flat_store.h"

namespace ravine {

void FlatStore::publish(Ctx&, size_t b) {
  share(b);
  drop_to_disk(b);
  if (b + 1 < buckets().size()) fetch_from_disk(b + 1);  // the update reads it next
}

void FlatStore::end_step() {
  settle_values();
  FlatGrads::end_step();
}

void FlatStore::progress() {
  if (in_flight())
    for (Axis axis : table().groups) table().ranks->along(axis).progress();
  else
    FlatWeights::progress();
}

std::vector<const Param*> FlatStore::params_in(const TensorView& view) const {
  std::vector<const Param*> out = FlatWeights::params_in(view);
  return out.empty() ? grads_in(view) : out;
}

}  // namespace ravine

#include "parallel/initialise.h"

#include "engine/initial_values.h"

namespace ravine {

void initialise(const ParamSet& params, WeightSource& store, uint64_t seed) {
  for (const Param& p : params.params()) {
    if (p.tied) continue;
    TensorView v = store.master(p);
    if (v.data) draw_values(p, seed, 0, v.count(), v, 0);
  }
}

void initialise(FlatWeights& store, uint64_t seed, const std::function<bool(const Param&)>& wanted) {
  for (size_t b = 0; b < store.table().buckets.size(); ++b) {
    TensorView to = store.resident_values(b);
    if (!to.data) continue;
    const Range resident = store.resident(b);
    for (const Piece& piece : pieces_of(store.table().buckets[b], resident)) {
      if (wanted && !wanted(*piece.param)) continue;
      const Shape& whole = piece.param->shape;
      // inner, run: the number of elements of the box that are contiguous in the parameter.
      int inner = whole.rank();
      int64_t run = 1;
      while (inner > 0) {
        --inner;
        run *= piece.shape[inner];
        if (piece.shape[inner] != whole[inner]) break;
      }
      for (int64_t done = 0; done < piece.shape.count(); done += run)
        draw_values(*piece.param, seed, piece.element(done), run, to, piece.from - resident.begin + done);
    }
  }
}

}  // namespace ravine

#include "parallel/whole_units.h"

#include <algorithm>
#include <cstring>

namespace ravine {
namespace {

// From the box of a piece, contiguous at `box`, to its place in the whole parameter.
void place_box(const Piece& piece, std::byte* whole, const std::byte* box, int64_t size) {
  const Shape& shape = piece.param->shape;
  int inner = shape.rank();
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= piece.shape[inner];
    if (piece.shape[inner] != shape[inner]) break;
  }
  for (int64_t done = 0; done < piece.shape.count(); done += run) {
    int64_t rest = done, index = 0, scale = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      index += (piece.begin[static_cast<size_t>(d)] + rest % piece.shape[d]) * scale;
      rest /= piece.shape[d];
      scale *= shape[d];
    }
    std::memcpy(whole + index * size, box + done * size, static_cast<size_t>(run * size));
  }
}

}  // namespace

TensorView UnitExport::master(const Param& p) const {
  auto it = whole_.find(&p);
  require(it != whole_.end(), "whole units: the unit of '{}' is not acquired", p.name);
  return view_of(it->second.data(), store_.held_master(0).dtype, p.shape, it->second.device());
}
std::vector<ParamBox> UnitExport::boxes() const { fail("whole units: they hold nothing of their own"); }

namespace {
constexpr int64_t kEnd = -1;
}

void UnitExport::acquire(const Unit& unit) {
  if (open_ == &unit) return;
  whole_.clear();
  for (const Param* p : unit.params)
    if (!p->tied) whole_.emplace(p, Storage(DeviceKind::cpu, p->shape.count() * size_of(store_.held_master(0).dtype)));
  gather_integers(ranks_.all(), static_cast<int64_t>(unit.index));
  bring(unit);
  open_ = &unit;
}

void UnitExport::end() { gather_integers(ranks_.all(), kEnd); }

void UnitExport::serve() {
  for (;;) {
    int64_t index = gather_integers(ranks_.all(), 0)[0];
    if (index == kEnd) return;
    bring(model_.params().units()[static_cast<size_t>(index)]);
  }
}

std::pair<TensorView, Range> UnitExport::here(size_t b) const {
  if (of_ == Of::masters) return {store_.held_master(b), store_.held(b)};
  return {store_.flat_grad(b), store_.buckets()[b].mine};
}

// Every rank sends what it speaks for, piece by piece, in an order that rank 0 knows too.
void UnitExport::bring(const Unit& unit) {
  const Mesh& mesh = ranks_.mesh();
  int64_t size = size_of(store_.held_master(0).dtype);
  std::vector<std::byte> box;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (!ranks_.first() && rank != ranks_.rank()) continue;
    Coordinates at = coordinates_of(mesh, rank);
    if (at.pipeline != stages_[unit.index]) continue;
    FlatPlace place = store_.place();
    place.tensor_rank = at.tensor;
    place.data_rank = at.data;
    for (const Bucket& bucket : flat_buckets(model_.params(), {const_cast<Unit*>(&unit)}, place)) {
      if (of_ == Of::gradients && !bucket.trainable) continue;
      std::byte* mine = nullptr;
      Range held;
      for (size_t b = 0; rank == ranks_.rank() && b < store_.buckets().size(); ++b) {
        if (store_.buckets()[b].spans[0].param != bucket.spans[0].param) continue;
        auto [view, range] = here(b);
        mine = view.as<std::byte>(), held = range;
      }
      for (const Piece& piece : pieces_of(bucket, bucket.spoken, place)) {
        if (bucket.cut && !speaks_for(*piece.param, at.tensor, mesh.tensor)) continue;
        int64_t bytes = piece.shape.count() * size;
        std::byte* from = mine ? mine + (piece.from - held.begin) * size : nullptr;
        if (!ranks_.first()) {
          ranks_.all().send(from, bytes, 0).wait();
          continue;
        }
        if (rank != 0) {
          box.resize(static_cast<size_t>(bytes));
          ranks_.all().receive(box.data(), bytes, rank).wait();
          from = box.data();
        }
        place_box(piece, whole_.at(piece.param).data(), from, size);
      }
    }
  }
}

}  // namespace ravine

#include "train/whole_units.h"

#include <algorithm>
#include <cstring>

namespace ravine {
namespace {

[[noreturn]] void no_training() { fail("whole units: they hold no gradients"); }

// Between the box of a piece, contiguous at `box`, and its place in the whole parameter.
void copy_box(const Piece& piece, std::byte* whole, std::byte* box, int64_t size, bool into_box) {
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
    std::byte *a = whole + index * size, *b = box + done * size;
    std::memcpy(into_box ? b : a, into_box ? a : b, static_cast<size_t>(run * size));
  }
}

}  // namespace

TensorView WholeUnits::master(const Param& p) const {
  auto it = whole_.find(&p);
  require(it != whole_.end(), "whole units: the unit of '{}' is not acquired", p.name);
  return view_of(it->second.data(), type_, p.shape, it->second.device());
}
void WholeUnits::open_grads(Ctx&, const Unit&) { no_training(); }
void WholeUnits::close_grads(Ctx&, const Unit&) { no_training(); }
TensorView WholeUnits::add_to_grad(const Param&, bool&) { no_training(); }
void WholeUnits::finish_grads(Ctx&) { no_training(); }

void WholeUnits::open(const Unit& unit, DType type) {
  type_ = type;
  for (const Param* p : unit.params)
    if (!p->tied) whole_.emplace(p, Storage(DeviceKind::cpu, p->shape.count() * size_of(type)));
}

// --- import

// A bucket of a tied parameter may be under another unit than the parameter: pieces are found by parameter.
void UnitImport::acquire(const Unit& unit) {
  bool here = false;
  for (size_t b = 0; b < store_.buckets().size(); ++b)
    for (const Bucket::Span& s : store_.buckets()[b].spans) here = here || s.param->unit == &unit;
  if (here) return open(unit, store_.held_master(0).dtype);
  type_ = store_.buckets().empty() ? DType::f32 : store_.held_master(0).dtype;
  for (const Param* p : unit.params)
    if (!p->tied) whole_.emplace(p, Storage(DeviceKind::meta, p->shape.count() * size_of(type_)));
}

void UnitImport::release(const Unit& unit) {
  for (size_t b = 0; b < store_.buckets().size(); ++b) {
    TensorView to = store_.held_master(b);
    for (const Piece& piece : pieces_of(store_.buckets()[b], store_.held(b), store_.place())) {
      if (piece.param->unit != &unit) continue;
      int64_t size = size_of(to.dtype);
      copy_box(piece, whole_.at(piece.param).data(), to.as<std::byte>() + (piece.from - store_.held(b).begin) * size, size, true);
    }
  }
  close();
}

// --- export

namespace {
constexpr int64_t kEnd = -1;
}

void UnitExport::acquire(const Unit& unit) {
  if (here_ == &unit) return;
  close();
  open(unit, store_.held_master(0).dtype);
  gather_integers(ranks_.all(), static_cast<int64_t>(unit.index));
  bring(unit);
  here_ = &unit;
}

void UnitExport::end() { gather_integers(ranks_.all(), kEnd); }

void UnitExport::serve() {
  for (;;) {
    int64_t index = gather_integers(ranks_.all(), 0)[0];
    if (index == kEnd) return;
    bring(model_.params().units()[static_cast<size_t>(index)]);
  }
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
      std::byte* mine = nullptr;
      Range held;
      for (size_t b = 0; rank == ranks_.rank() && b < store_.buckets().size(); ++b)
        if (store_.buckets()[b].spans[0].param == bucket.spans[0].param) mine = store_.held_master(b).as<std::byte>(), held = store_.held(b);
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
        copy_box(piece, whole_.at(piece.param).data(), from, size, false);
      }
    }
  }
}

}  // namespace ravine

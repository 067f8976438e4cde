#include "parallel/whole_units.h"

#include <algorithm>
#include <cstring>

namespace ravine {
namespace {

// Copies a piece, contiguous at `box`, to its position in the whole parameter. `size`: bytes of an element.
void insert_box(const Piece& piece, std::byte* whole, const std::byte* box, int64_t size) {
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
  return view_of(it->second.storage.data(), it->second.type, p.shape, it->second.storage.device());
}
std::vector<ParamBox> UnitExport::boxes() const { fail("whole units: they hold nothing of their own"); }

namespace {
constexpr int64_t kEnd = -1;
}

void UnitExport::acquire(const Unit& unit) {
  if (open_ == &unit) return;
  whole_.clear();
  for (const Bucket& bucket :
       flat_buckets(model_.params(), {const_cast<Unit*>(&unit)}, store_.table().sharding, store_.table().types))
    for (const Bucket::Span& s : bucket.spans)
      if (bucket.storage != ValueStorage::packed)
        whole_.emplace(s.param,
                       Whole{Storage(DeviceKind::cpu, s.param->shape.count() * size_of(type_of(bucket))), type_of(bucket)});
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

std::pair<TensorView, Range> UnitExport::local(size_t b) const {
  if (of_ == Of::masters) return {store_.resident_values(b), store_.resident(b)};
  return {store_.owned_grad(b), store_.buckets()[b].owned};
}

DType UnitExport::type_of(const Bucket& bucket) const {
  return of_ == Of::gradients ? bucket.grad_type : bucket.has_master() ? bucket.master_type : bucket.copy_type;
}

// Every rank sends its primary pieces in an order that rank 0 also knows.
void UnitExport::bring(const Unit& unit) {
  const Mesh& mesh = ranks_.mesh();
  std::vector<std::byte> box;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (!ranks_.first() && rank != ranks_.rank()) continue;
    Coordinates at = coordinates_of(mesh, rank);
    if (at.pipeline != stages_[unit.index]) continue;
    Sharding sharding = store_.table().sharding;
    sharding.at = at;
    for (const Bucket& bucket : flat_buckets(model_.params(), {const_cast<Unit*>(&unit)}, sharding, store_.table().types)) {
      if (of_ == Of::gradients && !bucket.trainable) continue;
      const int64_t size = size_of(type_of(bucket));
      std::byte* values = nullptr;
      Range there;
      for (size_t b = 0; rank == ranks_.rank() && b < store_.buckets().size(); ++b) {
        if (store_.buckets()[b].spans[0].param != bucket.spans[0].param) continue;
        auto [view, range] = local(b);
        values = view.as<std::byte>(), there = range;
      }
      for (const Piece& piece : pieces_of(bucket, bucket.primary)) {
        if (bucket.cut && !is_primary(*piece.param, at.tensor, mesh.tensor)) continue;
        int64_t bytes = piece.shape.count() * size;
        std::byte* from = values ? values + (piece.from - there.begin) * size : nullptr;
        if (!ranks_.first()) {
          ranks_.all().send(from, bytes, 0).wait();
          continue;
        }
        if (rank != 0) {
          box.resize(static_cast<size_t>(bytes));
          ranks_.all().receive(box.data(), bytes, rank).wait();
          from = box.data();
        }
        insert_box(piece, whole_.at(piece.param).storage.data(), from, size);
      }
    }
  }
}

}  // namespace ravine

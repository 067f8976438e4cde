#include "engine/flat.h"

#include <algorithm>
#include <unordered_set>

namespace ravine {
namespace {

constexpr int64_t kAlignElements = 16;
constexpr int kKeptForms = static_cast<int>(Kept::nf4) + 1;

int parts_of(const Cut& cut, int size) { return cut.most_parts > 0 ? std::min(cut.most_parts, size) : size; }

// Sets the shard size of the bucket, and the ranges that this rank owns and saves.
void divide(Bucket& b, const Sharding& sharding) {
  const int size = sharding.mesh.size(b.group), rank = sharding.at.along(b.group, sharding.mesh);
  const bool packed = b.storage == ValueStorage::packed, divides = size > 1 && b.count >= sharding.whole_below && !packed;
  if (divides) {
    b.shard = round_up(ceil_div(b.count, size), kNormRun);
    b.count = b.shard * size;
  } else {
    b.count = b.shard = round_up(b.count, kAlignElements);
  }
  const Range shard{b.shard * rank, b.shard}, all{0, b.count};
  b.owned = divides && sharding.divided ? shard : all;
  b.primary = divides && !sharding.first_rank_saves ? shard : rank == 0 ? all : Range{};
  b.stays = std::all_of(b.spans.begin(), b.spans.end(),
                        [&](const Bucket::Span& s) { return s.shape.count() <= sharding.stays_up_to; });
  if (packed || (!b.cut && b.group != Axis::tensor && sharding.at.tensor > 0)) b.primary = {};
}

// kept: how frozen values are stored (Param::policy).
void declare_types(Bucket& b, bool matrix, Kept kept, const Types& types) {
  const bool narrow = matrix && types.compute != types.master;
  b.master_type = types.master;
  b.grad_type = narrow ? types.gradient : types.master;
  b.copy_type = types.compute;
  b.reads_master =
      !narrow || std::any_of(b.spans.begin(), b.spans.end(), [](const Bucket::Span& s) { return s.param->use != Use::matrix; });
  // Frozen values are stored only in the types that kernels read.
  b.storage = !narrow                         ? ValueStorage::master
              : b.trainable || b.reads_master ? ValueStorage::master_and_copy
                                              : ValueStorage::copy;
  if (kept == Kept::usual || (kept == Kept::compute && types.compute == types.master)) return;
  b.copy_type = kept == Kept::bf16 ? DType::bf16 : types.compute;
  b.storage = kept == Kept::nf4 ? ValueStorage::packed : ValueStorage::copy;
  b.reads_master = false;
}

// Appends the boxes that cover elements [begin, end), in row-major order, of a box of `shape`.
void add_run(const Param& p, const Shape& shape, const std::vector<int64_t>& origin, int64_t from, int64_t begin, int64_t end,
             std::vector<Piece>& out) {
  // Widest dims first: whole slabs of dim d if the run begins at a slab.
  while (begin < end) {
    int64_t slab = 1;  // elements of one index of dim d
    int d = shape.rank() - 1;
    while (d > 0 && begin % (slab * shape[d]) == 0 && begin + slab * shape[d] <= end) slab *= shape[d--];
    int64_t index = begin / slab % (shape.rank() ? shape[d] : 1);
    int64_t n = shape.rank() ? std::min(shape[d] - index, (end - begin) / slab) : 1;
    Piece piece{&p, from + begin, {}, origin};
    int64_t rest = begin;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      piece.begin[static_cast<size_t>(i)] += rest % shape[i];
      rest /= shape[i];
    }
    for (int i = 0; i < shape.rank(); ++i) piece.shape.push_back(i < d ? 1 : i == d ? n : shape[i]);
    out.push_back(std::move(piece));
    begin += n * slab;
  }
}

}  // namespace

bool is_primary(const Param& p, int rank, int size) {
  if (size == 1) return true;
  for (const Cut& cut : p.cuts)
    if (cut.axis == Axis::tensor) {
      int parts = parts_of(cut, size);
      return rank == 0 || rank * parts / size != (rank - 1) * parts / size;
    }
  return rank == 0;
}

int replicas_of(const Param& p, int size) {
  for (const Cut& cut : p.cuts)
    if (cut.axis == Axis::tensor && cut.most_parts > 0 && cut.most_parts < size)
      return static_cast<int>(div_exact(size, cut.most_parts));
  return 1;
}

Shape local_shape(const Param& p, const Mesh& mesh) {
  Shape s = p.shape;
  for (const Cut& cut : p.cuts) s[cut.dim] = ceil_div(s[cut.dim], parts_of(cut, mesh.size(cut.axis)));
  return s;
}

Shape local_shape(const Param& p, int tensor_size) { return local_shape(p, Mesh{.tensor = tensor_size}); }

std::vector<int64_t> local_begin(const Param& p, const Coordinates& at, const Mesh& mesh) {
  std::vector<int64_t> begin(static_cast<size_t>(p.shape.rank()), 0);
  for (const Cut& cut : p.cuts) {
    const int size = mesh.size(cut.axis), parts = parts_of(cut, size);
    begin[static_cast<size_t>(cut.dim)] =
        ceil_div(p.shape[cut.dim], parts) * (static_cast<int64_t>(at.along(cut.axis, mesh)) * parts / size);
  }
  return begin;
}

std::vector<int64_t> local_begin(const Param& p, int tensor_rank, int tensor_size) {
  return local_begin(p, {.tensor = tensor_rank}, Mesh{.tensor = tensor_size});
}

std::vector<Bucket> flat_buckets(ParamSet& params, const std::vector<Unit*>& units, const Sharding& sharding,
                                 const Types& types) {
  const int rank = sharding.at.tensor, size = sharding.mesh.tensor;
  std::unordered_set<const Param*> tied_to_products;
  for (const Param& p : params.params())
    if (p.tied && p.use == Use::matrix) tied_to_products.insert(p.tied);
  std::vector<Bucket> buckets;
  for (Unit* unit : units) {
    std::vector<Axis> groups;
    for (const Param* p : unit->params)
      if (std::find(groups.begin(), groups.end(), p->group) == groups.end()) groups.push_back(p->group);
    const int kinds = 8 * static_cast<int>(groups.size());
    for (int number = 0; number < kinds * kKeptForms; ++number) {
      const int key = number % kinds;
      const auto wants_kept = static_cast<Kept>(number / kinds);
      Bucket bucket;
      bucket.unit = unit;
      bucket.group = groups[static_cast<size_t>(key / 8)];
      bucket.trainable = !(key & 4);
      const bool wants_matrix = !(key & 2);
      bucket.cut = !(key & 1);
      for (size_t i = 0; i < unit->params.size();) {
        size_t end = i;
        bool trainable = false, matrix = false;
        for (; end < unit->params.size() && unit->params[end]->join == unit->params[i]->join; ++end) {
          trainable = trainable || unit->params[end]->policy.trainable;
          matrix = matrix || unit->params[end]->use == Use::matrix || tied_to_products.contains(unit->params[end]);
        }
        bool cut = !unit->params[i]->cuts.empty();
        const Kept kept = trainable ? Kept::usual : unit->params[i]->policy.kept;
        if (kept == wants_kept && trainable == bucket.trainable && matrix == wants_matrix && cut == bucket.cut &&
            unit->params[i]->group == bucket.group) {
          bucket.count = round_up(bucket.count, kAlignElements);
          for (size_t j = i; j < end; ++j) {
            Param& p = *unit->params[j];
            if (p.tied) continue;
            bucket.spans.push_back({.param = &p,
                                    .begin = bucket.count,
                                    .shape = local_shape(p, sharding.mesh),
                                    .origin = local_begin(p, sharding.at, sharding.mesh),
                                    .replica = cut && !is_primary(p, rank, size)});
            bucket.count += bucket.spans.back().shape.count();
          }
        }
        i = end;
      }
      if (bucket.spans.empty()) continue;
      declare_types(bucket, wants_matrix, wants_kept, types);
      divide(bucket, sharding);
      buckets.push_back(std::move(bucket));
    }
  }
  return buckets;
}

int64_t Piece::element(int64_t i) const {
  int64_t index = 0, scale = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index += (begin[static_cast<size_t>(d)] + i % shape[d]) * scale;
    i /= shape[d];
    scale *= param->shape[d];
  }
  return index;
}

std::vector<Piece> pieces_of(const Bucket& bucket, Range range) {
  std::vector<Piece> pieces;
  for (const Bucket::Span& s : bucket.spans) {
    const Param& p = *s.param;
    // The elements of the local part that are not padding: rows behind the end of the first dim are padding. A padded
    // inner dim would not be contiguous.
    int64_t real = s.shape.count();
    for (int d = 0; d < s.shape.rank(); ++d) {
      int64_t there = std::clamp<int64_t>(p.shape[d] - s.origin[static_cast<size_t>(d)], 0, s.shape[d]);
      require(d == 0 || there == s.shape[d], "flat: dim {} of '{}' does not divide over tensor ranks", d, p.name);
      if (d == 0 && s.shape[0] > 0) real = real / s.shape[0] * there;
    }
    int64_t begin = std::max(range.begin, s.begin), end = std::min(range.begin + range.count, s.begin + real);
    if (begin < end) add_run(p, s.shape, s.origin, s.begin, begin - s.begin, end - s.begin, pieces);
  }
  return pieces;
}

}  // namespace ravine

#include "parallel/flat.h"

#include <algorithm>

namespace ravine {
namespace {

constexpr int64_t kAlignElements = 16;

int parts_of(const Cut& cut, int size) { return cut.most_parts > 0 ? std::min(cut.most_parts, size) : size; }

bool read_as_matrix(const ParamSet& set, const Param& p) {
  if (p.use == Use::matrix) return true;
  return std::any_of(set.params().begin(), set.params().end(), [&](const Param& q) { return q.tied == &p && q.use == Use::matrix; });
}

}  // namespace

Shape local_shape(const Param& p, int size) {
  Shape s = p.shape;
  for (const Cut& cut : p.cuts)
    if (cut.axis == Axis::tensor) s[cut.dim] = ceil_div(s[cut.dim], parts_of(cut, size));
  return s;
}

std::vector<int64_t> local_begin(const Param& p, int rank, int size) {
  std::vector<int64_t> begin(static_cast<size_t>(p.shape.rank()), 0);
  for (const Cut& cut : p.cuts) {
    if (cut.axis != Axis::tensor) continue;
    int parts = parts_of(cut, size);
    begin[static_cast<size_t>(cut.dim)] = ceil_div(p.shape[cut.dim], parts) * (static_cast<int64_t>(rank) * parts / size);
  }
  return begin;
}

std::vector<Bucket> flat_buckets(ParamSet& params, const std::vector<Unit*>& units, const FlatPlace& place) {
  std::vector<Bucket> buckets;
  for (Unit* unit : units) {
    for (int key = 0; key < 8; ++key) {
      Bucket bucket;
      bucket.unit = unit;
      bucket.trainable = !(key & 4);
      bucket.matrix = !(key & 2);
      bucket.cut = !(key & 1);
      for (size_t i = 0; i < unit->params.size();) {
        size_t end = i;
        bool trainable = false, matrix = false;
        for (; end < unit->params.size() && unit->params[end]->join == unit->params[i]->join; ++end) {
          trainable = trainable || unit->params[end]->trainable;
          matrix = matrix || read_as_matrix(params, *unit->params[end]);
        }
        bool cut = !unit->params[i]->cuts.empty();
        if (trainable == bucket.trainable && matrix == bucket.matrix && cut == bucket.cut) {
          bucket.count = round_up(bucket.count, kAlignElements);
          for (size_t j = i; j < end; ++j) {
            Param& p = *unit->params[j];
            if (p.tied) continue;
            bucket.spans.push_back({&p, bucket.count, local_shape(p, place.tensor_size)});
            bucket.count += bucket.spans.back().shape.count();
          }
        }
        i = end;
      }
      if (bucket.spans.empty()) continue;
      bucket.count = round_up(bucket.count, kAlignElements * place.data_size);
      buckets.push_back(std::move(bucket));
    }
  }
  return buckets;
}

std::vector<Piece> pieces_of(const Bucket& bucket, int64_t from, int64_t count, const FlatPlace& place) {
  std::vector<Piece> pieces;
  for (const Bucket::Span& s : bucket.spans) {
    const Param& p = *s.param;
    std::vector<int64_t> origin = local_begin(p, place.tensor_rank, place.tensor_size);
    int dims = p.shape.rank();
    // Rows: all dims but the last; a padded last dim would break runs, and only the first dim is ever padded.
    int64_t cols = dims ? s.shape[dims - 1] : 1;
    // What is real of the part: the rest is padding.
    int64_t real_rows = 1;
    for (int d = 0; d + 1 < dims; ++d)
      real_rows *= d == 0 ? std::clamp<int64_t>(p.shape[0] - origin[0], 0, s.shape[0]) : s.shape[d];
    int64_t real_cols = dims == 1 ? std::clamp<int64_t>(p.shape[0] - origin[0], 0, cols) : cols;
    int64_t begin = std::max(from, s.begin), end = std::min(from + count, s.begin + real_rows * cols - (dims == 1 ? cols - real_cols : 0));
    auto add = [&](int64_t row, int64_t rows, int64_t col, int64_t width) {
      Piece piece{&p, s.begin + row * cols + col, {}, origin};
      if (dims == 1) {
        piece.shape = {width};
        piece.begin[0] += col;
      } else {
        require(dims == 2, "flat: '{}' has {} dims", p.name, dims);
        piece.shape = {rows, width};
        piece.begin[0] += row;
        piece.begin[1] += col;
      }
      pieces.push_back(std::move(piece));
    };
    // At most a part of a row, whole rows, a part of a row.
    while (begin < end) {
      int64_t at = begin - s.begin, row = at / cols, col = at % cols;
      int64_t whole = (end - begin) / cols;
      if (col == 0 && whole > 0) {
        add(row, whole, 0, cols);
        begin += whole * cols;
      } else {
        int64_t width = std::min(cols - col, end - begin);
        add(row, 1, col, width);
        begin += width;
      }
    }
  }
  return pieces;
}

}  // namespace ravine

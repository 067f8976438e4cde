// Flat buffers: however many ranks divide a model, their pieces cover every parameter exactly once.
#include "engine/flat.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "io/slices.h"

namespace ravine {
namespace test_flat {

struct Small {
  ParamSet set;
  std::vector<Unit*> units;
  Small() {
    Unit& embed = set.unit("embed");
    set.add(embed, {"table", {257, 12}, {{0}}, {}, true, Use::table});
    Unit& layer = set.unit("layer");
    set.add(layer, {"norm", {12}, {}, {}, false, Use::vector});
    set.add_joined(layer,
                   {{"q", {24, 12}, {{0}}}, {"k", {6, 12}, {{0, Axis::tensor, 2}}}, {"v", {6, 12}, {{0, Axis::tensor, 2}}}});
    set.add(layer, {"out", {12, 24}, {{1}}});
    set.add(layer, {"bias", {24}, {{0}}, {}, false, Use::vector});
    for (Unit& u : set.units()) units.push_back(&u);
  }
};

TEST(Flat, PiecesCoverEveryParameterOnce) {
  for (int tensor : {1, 2, 4})
    for (int data : {1, 2, 3, 8}) {
      Small m;
      std::map<std::string, std::vector<Box>> boxes;
      for (int t = 0; t < tensor; ++t)
        for (int d = 0; d < data; ++d) {
          const Sharding sharding{{1, data, tensor}, {0, d, t}};
          for (const Bucket& b : flat_buckets(m.set, m.units, sharding, {})) {
            ASSERT_EQ(b.count % data, 0);
            if (!b.cut && t > 0) continue;  // the same on every tensor rank
            int64_t part = b.count / data, before = part * d;
            for (const Piece& p : pieces_of(b, {part * d, part})) {
              EXPECT_GE(p.from, before) << "in order";
              before = p.from + p.shape.count();
              EXPECT_LE(before, part * (d + 1));
              // With fewer key and value heads than ranks neighbours hold the same: the first is primary.
              if (tensor == 4 && (p.param->name == "k" || p.param->name == "v") && t % 2) continue;
              boxes[p.param->name].push_back({p.begin, p.shape});
            }
          }
        }
      for (const Param& p : m.set.params())
        EXPECT_EQ(cover_fault(p.shape, boxes[p.name]), "") << p.name << " tensor " << tensor << " data " << data;
    }
}

TEST(Flat, PartsBeginWhereNormsSumAnew) {
  for (int data : {2, 3, 8}) {
    Small m;
    for (const Bucket& b : flat_buckets(m.set, m.units, {{1, data, 1}, {0, data - 1, 0}, true, 500}, {})) {
      bool divided = b.shard < b.count;
      EXPECT_EQ(divided, b.unit->name == "embed" || b.spans.size() > 2) << b.unit->name;
      if (!divided) {
        EXPECT_EQ(b.owned, (Range{0, b.count}));
        EXPECT_EQ(b.primary.count, 0) << "the first data rank is primary";
        continue;
      }
      EXPECT_EQ(b.shard % kNormRun, 0);
      EXPECT_EQ(b.owned, (Range{b.shard * (data - 1), b.shard}));
      EXPECT_EQ(b.owned, b.primary);
    }
  }
}

// Over all ranks every parameter counts once in norms, and partial sums begin at the same elements for any number of
// data ranks.
TEST(Flat, CopiesCountOnce) {
  for (int tensor : {1, 2, 4, 8}) {
    std::map<std::string, std::set<std::pair<std::vector<int64_t>, int64_t>>>
        first;  // by parameter: where runs begin, and their length
    for (int data : {1, 2, 3}) {
      std::map<std::string, std::vector<Box>> boxes;
      std::map<std::string, std::set<std::pair<std::vector<int64_t>, int64_t>>> runs;
      ParamSet set;
      Unit& layer = set.unit("layer");
      set.add_joined(
          layer, {{"q", {240, 40}, {{0}}}, {"k", {60, 40}, {{0, Axis::tensor, 2}}}, {"v", {60, 40}, {{0, Axis::tensor, 2}}}});
      set.add(layer, {"out", {40, 240}, {{1}}});
      const std::vector<Unit*> units{&layer};
      for (int t = 0; t < tensor; ++t)
        for (int d = 0; d < data; ++d) {
          const Sharding sharding{{1, data, tensor}, {0, d, t}, true, 0};
          for (const Bucket& b : flat_buckets(set, units, sharding, {}))
            for (const Range& r : counted_ranges(b)) {
              EXPECT_GE(r.begin, b.primary.begin);
              EXPECT_LE(r.begin + r.count, b.primary.begin + b.primary.count);
              for (const Piece& p : pieces_of(b, r)) boxes[p.param->name].push_back({p.begin, p.shape});
              for (int64_t at = 0; at < r.count; at += kNormRun)
                for (const Piece& p : pieces_of(b, {r.begin + at, std::min(kNormRun, r.count - at)}))
                  runs[p.param->name].insert({p.begin, p.shape.count()});
            }
        }
      for (const Param& p : set.params())
        EXPECT_EQ(cover_fault(p.shape, boxes[p.name]), "") << p.name << " tensor " << tensor << " data " << data;
      if (first.empty()) first = runs;
      EXPECT_TRUE(runs == first) << "tensor " << tensor << " data " << data;
    }
  }
}

// Experts and the like: parts may begin and end anywhere inside.
TEST(Flat, PiecesOfManyDims) {
  ParamSet set;
  Unit& u = set.unit("experts");
  set.add(u, {"w", {3, 5, 7}, {}});
  std::vector<Unit*> units{&u};
  Bucket bucket = flat_buckets(set, units, {}, {})[0];
  for (int64_t begin = 0; begin < 105; begin += 4)
    for (int64_t count = 1; begin + count <= 105; count += 3) {
      std::vector<Box> boxes;
      int64_t next = begin;
      for (const Piece& p : pieces_of(bucket, {begin, count})) {
        EXPECT_EQ(p.from, next) << "in order";
        EXPECT_EQ(p.from, (p.begin[0] * 5 + p.begin[1]) * 7 + p.begin[2]);
        next += p.shape.count();
        // The box is one run of the parameter: its last element is where the run ends.
        EXPECT_EQ(((p.begin[0] + p.shape[0] - 1) * 5 + p.begin[1] + p.shape[1] - 1) * 7 + p.begin[2] + p.shape[2], next);
      }
      EXPECT_EQ(next, begin + count);
    }
}

TEST(Flat, JoinedParametersLieSideBySide) {
  Small m;
  for (const Bucket& b : flat_buckets(m.set, m.units, {{1, 4, 2}, {0, 0, 1}}, {}))
    for (size_t i = 0; i + 1 < b.spans.size(); ++i)
      if (b.spans[i].param->join == b.spans[i + 1].param->join) {
        EXPECT_EQ(b.spans[i].begin + b.spans[i].shape.count(), b.spans[i + 1].begin);
      }
}

}  // namespace test_flat
}  // namespace ravine

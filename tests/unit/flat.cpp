// Flat buffers: however many ranks divide a model, their pieces cover every parameter exactly once.
#include "parallel/flat.h"

#include <gtest/gtest.h>

#include "io/slices.h"

namespace ravine {
namespace {

struct Small {
  ParamSet set;
  std::vector<Unit*> units;
  Small() {
    Unit& embed = set.unit("embed");
    set.add(embed, {"table", {257, 12}, {{0}}, {}, true, Use::table});
    Unit& layer = set.unit("layer");
    set.add(layer, {"norm", {12}, {}, {}, false, Use::vector});
    set.add_joined(layer, {{"q", {24, 12}, {{0}}}, {"k", {6, 12}, {{0, Axis::tensor, 2}}}, {"v", {6, 12}, {{0, Axis::tensor, 2}}}});
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
          FlatPlace place{t, tensor, d, data};
          for (const Bucket& b : flat_buckets(m.set, m.units, place)) {
            ASSERT_EQ(b.count % data, 0);
            if (!b.cut && t > 0) continue;  // the same on every tensor rank
            int64_t part = b.count / data, before = part * d;
            for (const Piece& p : pieces_of(b, part * d, part, place)) {
              EXPECT_GE(p.from, before) << "in order";
              before = p.from + p.shape.count();
              EXPECT_LE(before, part * (d + 1));
              // With fewer key and value heads than ranks neighbours hold the same: the first speaks.
              if (tensor == 4 && (p.param->name == "k" || p.param->name == "v") && t % 2) continue;
              boxes[p.param->name].push_back({p.begin, p.shape});
            }
          }
        }
      for (const Param& p : m.set.params()) EXPECT_EQ(cover_fault(p.shape, boxes[p.name]), "") << p.name << " tensor " << tensor << " data " << data;
    }
}

TEST(Flat, JoinedParametersLieSideBySide) {
  Small m;
  for (const Bucket& b : flat_buckets(m.set, m.units, {1, 2, 0, 4}))
    for (size_t i = 0; i + 1 < b.spans.size(); ++i)
      if (b.spans[i].param->join == b.spans[i + 1].param->join) {
        EXPECT_EQ(b.spans[i].begin + b.spans[i].shape.count(), b.spans[i + 1].begin);
      }
}

}  // namespace
}  // namespace ravine

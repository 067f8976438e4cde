// Tests of the room checks without a program: rows, layers of a config.json, drawn rows, labels and streams.
#include <gtest/gtest.h>

#include "base/error.h"
#include "checks/data_checks.h"
#include "checks/row.h"
#include "checks/shrink.h"

namespace ravine {
namespace test_checks_pure {

CheckRow row_of(const std::string& name, const std::string& group, RowVerdict verdict) {
  CheckRow row;
  row.name = name, row.group = group, row.verdict = verdict;
  return row;
}

TEST(Rows, AreAllowedByNameAndGroup) {
  std::vector<CheckRow> rows = {row_of("lr", "learning rate", RowVerdict::different),
                                row_of("seed", "data", RowVerdict::different), row_of("data", "data", RowVerdict::equal)};
  EXPECT_FALSE(agrees(rows));
  allow_rows(rows, {"lr"});
  EXPECT_FALSE(agrees(rows));
  allow_rows(rows, {"data"});
  EXPECT_TRUE(agrees(rows));
  EXPECT_EQ(rows[2].verdict, RowVerdict::equal);
  EXPECT_THROW(allow_rows(rows, {"sed"}), UserError);
  EXPECT_EQ(row_json(rows[0])["verdict"], "allowed");
}

TEST(FirstLayers, CutsListsOfLayers) {
  const Json model = {{"num_hidden_layers", 4},
                      {"layer_types", {"a", "b", "c", "d"}},
                      {"mlp_only_layers", {0, 3}},
                      {"architectures", {"A", "B", "C", "D"}},
                      {"eos_token_id", {1, 2}}};
  const Json cut = first_layers(model, 2, "here");
  EXPECT_EQ(cut["num_hidden_layers"], 2);
  EXPECT_EQ(cut["layer_types"], Json({"a", "b"}));
  EXPECT_EQ(cut["mlp_only_layers"], Json({0}));
  EXPECT_EQ(cut["architectures"].size(), 4u);
  EXPECT_EQ(cut["eos_token_id"].size(), 2u);
  EXPECT_EQ(first_layers({{"n_layer", 3}}, 1, "here")["n_layer"], 1);
  EXPECT_THROW(first_layers(model, 5, "here"), UserError);
  EXPECT_THROW(first_layers(Json::object(), 1, "here"), UserError);
}

TEST(DrawnRows, AreSeededAndDistinct) {
  EXPECT_EQ(drawn_rows(100, 10, 1), drawn_rows(100, 10, 1));
  EXPECT_NE(drawn_rows(100, 10, 1), drawn_rows(100, 10, 2));
  EXPECT_EQ(drawn_rows(3, 10, 1), (std::vector<int64_t>{0, 1, 2}));
}

// Rows in memory.
class Rows : public TokenStream {
 public:
  Rows(std::vector<TokenRow> rows, bool shifted) : rows_(std::move(rows)), shifted_(shifted) {}
  int64_t rows() const override { return static_cast<int64_t>(rows_.size()); }
  TokenRow row(int64_t i) const override { return rows_[static_cast<size_t>(i)]; }
  std::string location(int64_t i) const override { return "row " + std::to_string(i); }
  bool shifted() const override { return shifted_; }

 private:
  std::vector<TokenRow> rows_;
  bool shifted_;
};

TokenSource source_of(std::vector<TokenRow> rows, bool shifted) {
  TokenSource source;
  source.tokens = std::make_unique<Rows>(std::move(rows), shifted);
  return source;
}

std::optional<bool> kept(const TokenSource& source, const std::string& name) {
  for (const DataFinding& f : check_tokens(source, 0))
    if (f.name == name) return f.kept;
  ADD_FAILURE() << name;
  return {};
}

TEST(Labels, NeverReachBetweenSegments) {
  // Two segments of three columns; the last column of each predicts nothing.
  const TokenRow row{{5, 6, 7, 8, 9, 10}, {6, 7, -100, 9, 10, -100}, {{0, 3}, {3, 3}}};
  EXPECT_EQ(kept(source_of({row}, true), "labels"), true);
  EXPECT_EQ(kept(source_of({row}, false), "labels"), false);
  EXPECT_EQ(kept(source_of({TokenRow{{5, 6, 7}, {}, {}}}, true), "labels"), std::nullopt);
}

TEST(Streams, PartAtATokenWhateverTheRowsAre) {
  const TokenSource a = source_of({{{1, 2, 3}, {}, {}}, {{4, 5, 6}, {}, {}}}, false),
                    b = source_of({{{1, 2}, {}, {}}, {{3, 4}, {}, {}}, {{9, 6}, {}, {}}}, false);
  const StreamComparison c = compare_streams(a, b, 0);
  ASSERT_TRUE(c.split);
  EXPECT_EQ(c.equal, 4);
  EXPECT_EQ(c.split->row_a, 1);
  EXPECT_EQ(c.split->row_b, 2);
  EXPECT_EQ(c.split->place_a, "row 1 column 1");
  EXPECT_FALSE(compare_streams(a, a, 0).split);
}

}  // namespace test_checks_pure
}  // namespace ravine

#include "io/convert/elements.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "base/json.h"
#include "io/convert/mindformers.h"
#include "io/convert/stream.h"
#include "io/convert/weights.h"
#include "tests/unit/families.h"

using namespace ravine;

namespace test_convert_elements {

ElementsPtr counting(const Shape& shape, float from) {
  std::vector<float> v(static_cast<size_t>(shape.count()));
  std::iota(v.begin(), v.end(), from);
  const auto bytes = std::as_bytes(std::span(v));
  return in_memory(DType::f32, shape, {bytes.begin(), bytes.end()});
}

std::vector<float> values(const Elements& e, int64_t begin, int64_t count) {
  std::vector<float> v(static_cast<size_t>(count));
  e.read(begin, std::as_writable_bytes(std::span(v)));
  return v;
}
std::vector<float> values(const Elements& e) { return values(e, 0, e.count()); }

TEST(Elements, RowsAndColumnsAnyRange) {
  const ElementsPtr a = counting({4, 3}, 0), b = counting({2, 3}, 100);
  const ElementsPtr stacked = stack_rows({{a, 1, 2}, all_rows(b), {a, 0, 2, 2}, {b, 1, 2, 0}}, "test");
  EXPECT_TRUE(stacked->shape() == (Shape{8, 3}));
  EXPECT_EQ(values(*stacked), (std::vector<float>{3, 4, 5, 6, 7, 8, 100, 101, 102, 103, 104, 105,
                                                  0, 1, 2, 6, 7, 8, 103, 104, 105, 103, 104, 105}));
  EXPECT_EQ(values(*interleave_rows({b, b}, "test")),
            (std::vector<float>{100, 101, 102, 100, 101, 102, 103, 104, 105, 103, 104, 105}));
  const ElementsPtr wide = join_cols({take_cols(a, 2, 1, "test"), a}, "test");
  EXPECT_EQ(values(*wide), (std::vector<float>{2, 0, 1, 2, 5, 3, 4, 5, 8, 6, 7, 8, 11, 9, 10, 11}));
  const ElementsPtr turned = transposed(a);
  EXPECT_TRUE(turned->shape() == (Shape{3, 4}));
  EXPECT_EQ(values(*turned), (std::vector<float>{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
  EXPECT_EQ(values(*transposed(turned)), values(*a));
  for (const ElementsPtr& e : {stacked, wide, turned}) {
    const std::vector<float> all = values(*e);
    for (int64_t begin = 0; begin <= e->count(); ++begin)
      for (int64_t count = 0; begin + count <= e->count(); ++count)
        EXPECT_EQ(values(*e, begin, count), std::vector<float>(all.begin() + begin, all.begin() + begin + count));
  }
  EXPECT_EQ(values(*padded_rows(b, 4)), (std::vector<float>{100, 101, 102, 103, 104, 105, 103, 104, 105, 103, 104, 105}));
  EXPECT_EQ(values(*padded_rows(b, 1)), (std::vector<float>{100, 101, 102}));
}

// Bloom's rows of q, k, v per head and GPT-2's transposed matrices, cut and put together again.
TEST(FamilyFiles, ThereAndBack) {
  for (const auto& [name, config] : tiny_families()) {
    const Geometry g = geometry_of(config, "test");
    Weights w;
    w.config = config;
    float at = 0;
    std::map<std::string, std::vector<float>> want;
    for (const FileTensor& t : g.model->files().tensors) {
      w.add(t.name, counting(t.shape, at));
      want[t.name] = values(*w.tensors[t.name]);
      at += static_cast<float>(t.shape.count());
    }
    from_family_files(w, g);
    check_weights(w, g, false);
    for (const FileTensor& t : g.model->files().tensors)
      for (const FileTensor::Run& r : t.runs) {  // row by row, by the definition of a run
        const std::vector<float> param = values(*w.tensors.at(t.params[r.param]->name)), &file = want[t.name];
        const int64_t inner = t.transposed ? t.shape[0] : t.shape.count() / t.shape[0],
                      outputs = t.transposed ? t.shape[1] : t.shape[0];
        for (int64_t i = 0; i < r.count; ++i)
          for (int64_t c = 0; c < inner; ++c)
            ASSERT_EQ(param[static_cast<size_t>((r.param_row + i) * inner + c)],
                      file[static_cast<size_t>(t.transposed ? c * outputs + r.row + i : (r.row + i) * inner + c)])
                << name << " " << t.name;
      }
    to_family_files(w, g);
    ASSERT_EQ(w.tensors.size(), want.size()) << name;
    for (const auto& [file, e] : w.tensors) EXPECT_EQ(values(*e), want.at(file)) << name << " " << file;
  }
}

TEST(FamilyFiles, WeightsOfAnotherModelAreRefused) {
  const auto families = tiny_families();
  for (const auto& [name, config] : families)
    for (const auto& [other, other_config] : families) {
      const Geometry g = geometry_of(config, "test"), h = geometry_of(other_config, "test");
      const auto same = [](const Geometry& a, const Geometry& b) {
        const auto& x = a.model->params().params();
        const auto& y = b.model->params().params();
        return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [](const Param& p, const Param& q) {
                 return p.name == q.name && p.shape == q.shape && (!p.tied || q.tied);  // a tied model skips a head
               });
      };
      Weights w;
      for (const Param& p : g.model->params().params())
        if (!p.tied) w.add(p.name, zeros(DType::f32, p.shape));
      if (same(g, h))
        check_weights(w, h, false);
      else
        EXPECT_THROW(check_weights(w, h, false), UserError) << name << " as " << other;
    }
}

TEST(Elements, PartsOfTwoTypesAndWrongSumsAreRefused) {
  const ElementsPtr a = counting({2, 3}, 0), h = as_type(a, DType::bf16);
  EXPECT_THROW(stack_rows({all_rows(a), all_rows(h)}, "test"), UserError);
  EXPECT_THROW(assembled({2, 3}, {{a, 0, 0, 0, 0, 1, 5}}, "test"), Error);
  EXPECT_THROW(stack_rows({{a, 1, 2}}, "test"), Error);  // past the end
}

TEST(Elements, StreamConvertsInPieces) {
  const int64_t n = kStreamBytes / 4 * 2 + 7;
  const ElementsPtr e = counting({1, 1000}, 0), many = stack_rows({{e, 0, ceil_div(n, 1000), 0}}, "test");
  int64_t pieces = 0, bytes = 0;
  stream(*many, DType::f64, [&](std::span<const std::byte> b) {
    ++pieces;
    bytes += static_cast<int64_t>(b.size());
    EXPECT_LE(static_cast<int64_t>(b.size()), kStreamBytes);
    double first = 0;
    std::memcpy(&first, b.data(), 8);
    EXPECT_EQ(first, static_cast<double>((bytes - static_cast<int64_t>(b.size())) / 8 % 1000));
  });
  EXPECT_EQ(bytes, many->count() * 8);
  EXPECT_GT(pieces, 2);
}

// The names and orders that MindFormers itself gave.
TEST(MindFormers, NamesAsRecorded) {
  const char* shared = std::getenv("RAVINE_SHARED");
  if (!shared || !*shared) GTEST_SKIP() << "RAVINE_SHARED names no folder of recorded names";
  const Json j = read_json(std::string(shared) + "/golden/mindformers/weight_names.json");
  for (const auto& [key, family] : {std::pair{"llama_legacy", "llama"}, {"qwen2_mcore", "qwen2"}, {"qwen3_mcore", "qwen3"}}) {
    const Geometry g = geometry_of(Json{{"model_type", family},
                                        {"hidden_size", 8},
                                        {"intermediate_size", 16},
                                        {"num_hidden_layers", 2},
                                        {"num_attention_heads", 2},
                                        {"vocab_size", 11}},
                                   "test");
    for (const auto& [ours, theirs] : j[key].items()) EXPECT_EQ(mindformers_name(ours, g), theirs.get<std::string>());
  }
  EXPECT_TRUE(is_mindformers_name("decoder.layers.3.self_attention.linear_q.weight"));
  EXPECT_FALSE(is_mindformers_name("model.layers.3.self_attn.q_proj.weight"));
}

}  // namespace test_convert_elements

#include "files/compare.h"
#include "files/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "files/convert.h"
#include "files/tensor_set.h"
#include "tests/unit/files_temporary.h"

using namespace ravine;

namespace test_files_compare {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

Difference of(const std::vector<float>& a, const std::vector<float>& b) {
  return compare(DType::f32, std::as_bytes(std::span(a)), DType::f32, std::as_bytes(std::span(b)));
}

TEST(Compare, EqualIsEqual) {
  const Difference d = of({1, 0, kNan, kInf}, {1, 0, kNan, kInf});
  EXPECT_EQ(d.count, 4);
  EXPECT_EQ(d.differing, 0);
  EXPECT_EQ(d.at, -1);
  EXPECT_EQ(d.cosine, 1);
  EXPECT_EQ(of({}, {}).differing, 0);
}

TEST(Compare, MeasuresEveryDistance) {
  const Difference d = of({1, 2, -4, 8}, {1, std::nextafter(2.0f, 3.0f), -5, 8});
  EXPECT_EQ(d.differing, 2);
  EXPECT_EQ(d.max_abs, 1);
  EXPECT_EQ(d.at, 2);
  EXPECT_EQ(d.max_rel, 0.2);
  EXPECT_EQ(d.max_ulp, 1 << 21);  // -4 to -5: a quarter of the binade's 2^23 steps
  const double dot = 1 + 2 * double{std::nextafter(2.0f, 3.0f)} + 20 + 64, a = std::sqrt(85.0);
  const double b = std::sqrt(1 + std::pow(double{std::nextafter(2.0f, 3.0f)}, 2) + 25 + 64);
  EXPECT_NEAR(d.cosine, dot / (a * b), 8 * epsilon(DType::f64));
  EXPECT_EQ(of({2}, {std::nextafter(2.0f, 3.0f)}).max_ulp, 1);
  EXPECT_EQ(of({0}, {-1e-45f}).max_ulp, 1);
  EXPECT_EQ(of({1e-45f}, {-1e-45f}).max_ulp, 2);
}

TEST(Compare, ZerosInfinitiesAndNan) {
  Difference d = of({0.0f}, {-0.0f});
  EXPECT_EQ(d.differing, 1);
  EXPECT_EQ(d.max_abs, 0);
  EXPECT_EQ(d.max_ulp, 0);
  EXPECT_EQ(d.cosine, 1);
  d = of({1, kNan, 2}, {1, 3, 2.5f});
  EXPECT_EQ(d.nan_on_one, 1);
  EXPECT_EQ(d.nan_on_both, 0);
  EXPECT_NEAR(d.cosine, 6 / std::sqrt(5 * 7.25), 1e-6);  // of what is finite on both sides
  EXPECT_EQ(d.max_abs, kInf);
  EXPECT_EQ(d.at, 1);
  d = of({1, kNan, kInf}, {2, kNan, kInf});
  EXPECT_EQ(d.nan_on_both, 1);
  EXPECT_EQ(d.cosine, 1);
  d = of({kInf, 1}, {-kInf, 1});
  EXPECT_EQ(d.max_abs, kInf);
  EXPECT_EQ(d.max_rel, kInf);
  EXPECT_EQ(of({0, 0}, {1, 0}).cosine, 0);
  EXPECT_EQ(of({1, 1}, {-1, -1}).cosine, -1.0 / (std::sqrt(2.0) * std::sqrt(2.0)) * 2);
}

TEST(Compare, OtherTypesAreComparedByValue) {
  const std::vector<float> a = {1, 2, 3.5f};
  const std::vector<double> b = {1, 2, 3.5};
  std::vector<bf16> c = {bf16(1), bf16(2), bf16(3.5f)};
  EXPECT_EQ(compare(DType::f32, std::as_bytes(std::span(a)), DType::f64, std::as_bytes(std::span(b))).differing, 0);
  c[2] = bf16(3);
  const Difference d = compare(DType::bf16, std::as_bytes(std::span(c)), DType::f64, std::as_bytes(std::span(b)));
  EXPECT_EQ(d.differing, 1);
  EXPECT_EQ(d.max_abs, 0.5);
  EXPECT_THROW(compare(DType::f32, std::as_bytes(std::span(a)), DType::f32, std::as_bytes(std::span(a)).first(8)), Error);
}

TEST(Compare, LongsAreComparedExactly) {
  const std::vector<int64_t> a = {INT64_MAX, INT64_MIN, 5}, b = {INT64_MAX - 1, INT64_MIN, 5}, c = {INT64_MIN, INT64_MIN, 5};
  auto both = [](const std::vector<int64_t>& x, const std::vector<int64_t>& y) {
    return compare(DType::i64, std::as_bytes(std::span(x)), DType::i64, std::as_bytes(std::span(y)));
  };
  EXPECT_EQ(both(a, b).max_abs, 1);
  EXPECT_EQ(both(a, b).differing, 1);
  EXPECT_EQ(both(a, c).max_abs, 0x1p64);
}

TEST(Compare, FindsTheOneElementOfManyWithAnyThreads) {
  std::vector<float> a(1'000'003), b;
  for (size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
  b = a;
  b[777'777] += 0.5f;
  b[900'000] -= 0.25f;
  const int threads = thread_count();
  set_thread_count(1);
  const Difference one = of(a, b);
  set_thread_count(3);
  const Difference three = of(a, b);
  set_thread_count(threads);
  EXPECT_EQ(one.differing, 2);
  EXPECT_EQ(one.at, 777'777);
  EXPECT_EQ(one.cosine, three.cosine);
  EXPECT_EQ(one.max_rel, three.max_rel);
}

void put(const std::string& path, const std::vector<std::string>& names) {
  const float one = 1;
  std::vector<TensorBytes> tensors;
  for (const auto& n : names) tensors.push_back({n, DType::f32, {1}, std::as_bytes(std::span(&one, 1))});
  save_safetensors(path, tensors);
}

TEST(TensorSet, JoinsFilesOfAFolderOrOfItsIndex) {
  TemporaryFolder folder;
  put(folder / "a.safetensors", {"x", "y"});
  put(folder / "b.safetensors", {"z"});
  EXPECT_EQ(TensorSet(folder / "a.safetensors").tensors().size(), 2u);
  EXPECT_EQ(TensorSet(folder.path()).tensors().size(), 3u);
  put(folder / "c.safetensors", {"x"});
  std::string text = message_of<UserError>([&] { TensorSet set(folder.path()); });
  EXPECT_NE(text.find("tensor 'x'"), std::string::npos) << text;
  const std::string index = folder / "model.safetensors.index.json";
  spill(index, R"({"metadata":{},"weight_map":{"x":"a.safetensors","y":"a.safetensors","z":"b.safetensors"}})");
  EXPECT_EQ(TensorSet(folder.path()).tensors().size(), 3u);
  for (const char* bad :
       {R"({"weight_map":{"x":"b.safetensors","z":"b.safetensors"}})", R"({"weight_map":{"q":"a.safetensors"}})",
        R"({"weight_map":{"x":"./a.safetensors"}})", R"({"weight_map":{"x":3}})", R"({"weight_map":[]})", "[]", "{",
        R"({"weight_map":{"x":"missing.safetensors"}})"}) {
    spill(index, bad);
    EXPECT_THROW(TensorSet set(folder.path()), UserError) << bad;
  }
  put(folder / "model.safetensors", {"only"});
  EXPECT_EQ(TensorSet(folder.path()).tensors().size(), 1u);  // the index has lost its file
  spill(index, R"({"weight_map":{"x":"a.safetensors","z":"b.safetensors"}})");
  text = message_of<UserError>([&] { TensorSet set(folder.path()); });
  EXPECT_NE(text.find("two models in a folder"), std::string::npos) << text;
  TemporaryFolder empty;
  EXPECT_THROW(TensorSet set(empty.path()), UserError);
  EXPECT_THROW(TensorSet set(empty / "missing"), UserError);
}

}  // namespace test_files_compare

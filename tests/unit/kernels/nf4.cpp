// Blocks of 4 bits. bitsandbytes has the same blocks for the same matrices (tests/golden/nf4, made by
// tools/golden/make_nf4.py). Parts of a matrix equal the whole. Products equal the products of the plain matrix.
#include "kernels/nf4.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "base/philox.h"
#include "files/safetensors.h"
#include "kernels/kernels.h"

namespace ravine {
namespace test_nf4 {

struct Golden {
  Shape shape;
  std::vector<std::byte> bytes;
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
};

class Matrices {
 public:
  Matrices() : file_(std::string(RAVINE_SOURCE_DIR) + "/tests/golden/nf4/matrices.safetensors") {}
  Golden operator()(const std::string& name) const {
    const TensorInfo& t = file_.tensor(name);
    Golden g{t.shape, std::vector<std::byte>(file_.bytes(t).size())};
    file_.read(t, 0, g.bytes);
    return g;
  }

 private:
  SafetensorsReader file_;
};

// A box of a matrix and its memory.
struct Held {
  Nf4View view;
  std::vector<uint8_t> memory;
  Held(const Shape& whole, const Shape& shape, const std::vector<int64_t>& begin) : view(nf4_box(whole, shape, begin)) {
    memory.assign(static_cast<size_t>(view.byte_count()), 0xee);
    view.bytes.data = memory.data();
  }
  Held(const Shape& whole, const float* values) : Held(whole, whole, {0, 0}) { EXPECT_TRUE(nf4_encode(values, view)); }
  std::vector<float> decoded() const {
    std::vector<float> out(static_cast<size_t>(view.rows * view.cols));
    nf4_decode(view, 0, view.rows, 0, view.cols, out.data(), view.cols);
    return out;
  }
};

std::vector<float> random_matrix(const Shape& shape, uint64_t key) {
  std::vector<float> out(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(uniform24(philox(key, {static_cast<uint32_t>(i), 0, 0, 0})[0]) - 0.5);
  return out;
}

TEST(Nf4, TablesAreThoseOfBitsandbytes) {
  const Matrices golden;
  EXPECT_EQ(std::memcmp(golden("values").as<float>(), nf4_values().data(), 16 * 4), 0);
  EXPECT_EQ(std::memcmp(golden("map").as<float>(), nf4_scale_values().data(), 256 * 4), 0);
}

TEST(Nf4, BlocksAreThoseOfBitsandbytes) {
  const Matrices golden;
  for (const std::string name : {"usual", "groups", "ragged", "odd", "edges", "zeros", "equal"}) {
    const Golden w = golden(name + ".weight"), codes = golden(name + ".codes"), scales = golden(name + ".scales"),
                 groups = golden(name + ".groups"), value = golden(name + ".value");
    const Held held(w.shape, w.as<float>());
    const Nf4View& v = held.view;
    ASSERT_EQ(groups.shape.count(), v.groups()) << name;
    ASSERT_EQ(scales.shape.count(), v.blocks()) << name;
    const uint8_t* at = held.memory.data();
    EXPECT_EQ(std::memcmp(at, groups.bytes.data(), groups.bytes.size()), 0) << name << ": groups";
    at += groups.bytes.size();
    EXPECT_EQ(std::memcmp(at, golden(name + ".mean").bytes.data(), 4), 0) << name << ": mean";
    EXPECT_EQ(std::memcmp(at + 4, scales.bytes.data(), scales.bytes.size()), 0) << name << ": codes of scales";
    EXPECT_EQ(std::memcmp(nf4_codes(v), codes.bytes.data(), codes.bytes.size()), 0) << name << ": codes";
    EXPECT_EQ(std::memcmp(held.decoded().data(), value.bytes.data(), value.bytes.size()), 0) << name << ": values";
    // bitsandbytes' mean is a sum of positive numbers in f32: at most one rounding per addition.
    float mean = 0;
    std::memcpy(&mean, held.memory.data() + 4 * v.groups(), 4);
    EXPECT_LE(std::fabs(mean - *golden(name + ".mean_there").as<float>()), static_cast<float>(v.blocks() + 1) * 0x1p-24f * mean)
        << name;
  }
}

TEST(Nf4, APartHasTheValuesOfTheWhole) {
  const Shape whole{10, 192};
  const std::vector<float> w = random_matrix(whole, 3), all = Held(whole, w.data()).decoded();
  for (const auto& [shape, begin] :
       {std::pair<Shape, std::vector<int64_t>>{{4, 192}, {6, 0}}, {{10, 64}, {0, 128}}, {{3, 128}, {2, 64}}}) {
    Held part(whole, shape, begin);
    ASSERT_TRUE(nf4_fits(part.view));
    ASSERT_TRUE(nf4_encode(w.data(), part.view));
    const std::vector<float> got = part.decoded();
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j)
        ASSERT_EQ(got[static_cast<size_t>(i * shape[1] + j)], all[static_cast<size_t>((begin[0] + i) * 192 + begin[1] + j)])
            << i << ", " << j;
  }
  EXPECT_FALSE(nf4_fits(nf4_box(whole, {10, 96}, {0, 96})));
  EXPECT_FALSE(nf4_fits(nf4_box({10, 96}, {5, 96}, {5, 0})));
  EXPECT_TRUE(nf4_fits(nf4_box({7, 33}, {7, 33}, {0, 0})));
}

TEST(Nf4, SameBitsForAnyNumberOfThreads) {
  const Shape shape{700, 256};
  const std::vector<float> w = random_matrix(shape, 9);
  const int before = thread_count();
  set_thread_count(1);
  const Held one(shape, w.data());
  set_thread_count(3);
  EXPECT_EQ(one.memory, Held(shape, w.data()).memory);
  set_thread_count(before);
}

TEST(Nf4, NumbersThatAreNotFiniteAreReported) {
  const Shape shape{4, 64};
  for (float bad : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> w = random_matrix(shape, 1);
    w[70] = bad;
    EXPECT_FALSE(nf4_encode(w.data(), Held(shape, shape, {0, 0}).view));
  }
}

// A matrix rows x cols of a type, with its memory.
struct Plain {
  std::vector<std::byte> memory;
  TensorView view;
  Plain(DType t, int64_t rows, int64_t cols, const std::vector<float>& values)
      : memory(static_cast<size_t>(rows * cols * size_of(t))), view(view_of(memory.data(), t, {rows, cols})) {
    visit_float(t, [&](auto zero) {
      using T = decltype(zero);
      for (size_t i = 0; i < values.size(); ++i) reinterpret_cast<T*>(memory.data())[i] = T(values[i]);
    });
  }
};

template <class Args>
void run(const Kernels& kernels, const Args& args) {
  const Kernel<Args>& kernel = kernels.of<Args>();
  std::vector<std::byte> scratch(static_cast<size_t>(kernel.workspace ? kernel.workspace(args, thread_count()) : 0));
  kernel.run(args, scratch.data());
}

// From nine rows on: with fewer rows the plain product uses another path.
void expect_plain_product(const Kernels& kernels, DType t, int64_t m, int64_t out, int64_t in, bool transposed,
                          bool accumulate) {
  const std::vector<float> w = random_matrix({out, in}, 5);
  const Held held({out, in}, w.data());
  const int64_t k = transposed ? in : out, n = transposed ? out : in;
  const Plain a(t, m, k, random_matrix({m, k}, 7)), b(t, out, in, held.decoded()), bias(t, 1, n, random_matrix({1, n}, 8));
  Plain want(t, m, n, random_matrix({m, n}, 6)), got = want;
  got.view.data = got.memory.data();
  TensorView row = bias.view;
  row.shape = {n};
  run(kernels,
      Matmul{.a = a.view, .b = b.view, .bias = row, .out = want.view, .trans_b = transposed, .accumulate = accumulate});
  run(kernels,
      Nf4Matmul{.a = a.view, .w = held.view, .bias = row, .out = got.view, .trans_w = transposed, .accumulate = accumulate});
  EXPECT_EQ(got.memory, want.memory) << kernels.backend << " " << kernels.instructions << " " << name(t) << " " << m << " "
                                     << out << " " << in << " " << transposed;
}

TEST(Nf4, ProductsAreThoseOfThePlainMatrix) {
  std::vector<Kernels> all = {cpu_kernels(), ref_kernels()};
  if (cpu_has_bf16_dot()) all.push_back(cpu_kernels(Bf16Products::dot));
  for (const Kernels& kernels : all)
    for (DType t : {DType::f32, DType::bf16, DType::f16})
      for (bool transposed : {false, true})
        for (auto [m, out, in] :
             {std::array<int64_t, 3>{9, 64, 128}, {97, 200, 192}, {33, 33, 7}, {40, 1100, 320}, {20, 70, 1300}})
          expect_plain_product(kernels, t, m, out, in, transposed, m == 33);
}

TEST(Nf4, OneRowIsARowOfMany) {
  const Shape shape{130, 192};
  const std::vector<float> w = random_matrix(shape, 5);
  const Held held(shape, w.data());
  const Plain a(DType::f32, 12, 192, random_matrix({12, 192}, 7));
  const Plain many(DType::f32, 12, 130, {}), one(DType::f32, 1, 130, {});
  run(cpu_kernels(), Nf4Matmul{.a = a.view, .w = held.view, .out = many.view, .trans_w = true});
  for (int64_t i : {0, 11}) {
    run(cpu_kernels(), Nf4Matmul{.a = a.view.row_range(i, 1), .w = held.view, .out = one.view, .trans_w = true});
    EXPECT_EQ(std::memcmp(one.memory.data(), many.memory.data() + i * 130 * 4, 130 * 4), 0) << i;
  }
}

}  // namespace test_nf4
}  // namespace ravine

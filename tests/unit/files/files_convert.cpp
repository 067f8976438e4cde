#include "files/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/json.h"
#include "tests/unit/files_temporary.h"

using namespace ravine;

namespace test_files_convert {

template <class To, class From>
To one(From x) {
  To y{};
  convert(dtype_of<From>(), &x, dtype_of<To>(), &y, 1);
  return y;
}

// The number of type T nearest to x, the even one of two equally near, found by looking at all three candidates.
template <class T>
uint16_t nearest_bits(double x) {
  const T guess(static_cast<float>(x));
  auto value = [](uint16_t bits) {
    T t;
    t.bits = bits;
    return static_cast<double>(static_cast<float>(t));
  };
  uint16_t best = guess.bits;
  for (int step : {-1, 1}) {
    const auto bits = static_cast<uint16_t>(guess.bits + step);
    if (!std::isfinite(value(bits)) || !std::isfinite(value(best))) continue;
    const double d = std::fabs(value(bits) - x), b = std::fabs(value(best) - x);
    if (d < b || (d == b && bits % 2 == 0)) best = bits;
  }
  return best;
}

TEST(Convert, AgreesWithNumpyAndPyTorch) {
  const Json rows = read_json(golden("convert.json"));
  int n = 0;
  for (size_t i = 0; i < rows["f64"].size(); ++i, ++n) {
    const double x = std::strtod(rows["f64"][i].get<std::string>().c_str(), nullptr);
    EXPECT_EQ(one<f16>(x).bits, static_cast<uint16_t>(rows["f16"][i].get<int>())) << x;
  }
  for (size_t i = 0; i < rows["f32"].size(); ++i, ++n) {
    const auto x = static_cast<float>(std::strtod(rows["f32"][i].get<std::string>().c_str(), nullptr));
    EXPECT_EQ(one<bf16>(x).bits, static_cast<uint16_t>(rows["bf16"][i].get<int>())) << x;
    EXPECT_EQ(one<bf16>(static_cast<double>(x)).bits, one<bf16>(x).bits) << x;
  }
  EXPECT_GT(n, 900);
}

TEST(Convert, RoundsDoublesAndLongsOnce) {
  // Through f32 this would be a tie, and end at 1.
  EXPECT_EQ(static_cast<float>(one<bf16>(1 + 0x1p-8 + 0x1p-40)), 1 + 0x1p-7f);
  EXPECT_EQ(static_cast<float>(one<f16>(1 + 0x1p-11 + 0x1p-40)), 1 + 0x1p-10f);
  EXPECT_EQ(static_cast<float>(one<bf16>(int64_t{0x7fc0000000000001})), 0x1.00p63f);
  EXPECT_EQ(static_cast<float>(one<bf16>((int64_t{0x101} << 54) + 1)), static_cast<float>(int64_t{0x102} << 54));
  EXPECT_EQ(static_cast<float>(one<bf16>(int64_t{0x101} << 54)), static_cast<float>(int64_t{0x100} << 54));
  EXPECT_EQ(static_cast<float>(one<bf16>(-((int64_t{0x101} << 54) + 1))), -static_cast<float>(int64_t{0x102} << 54));
  std::mt19937_64 random(11);
  for (int i = 0; i < 200000; ++i) {
    const int e = static_cast<int>(random() % 36) - 24;
    double x = std::ldexp(1 + static_cast<double>(random() % 4096) / 4096, e);
    if (random() % 2) x = std::nextafter(x, random() % 2 ? 0.0 : 1e9);
    if (random() % 2) x = -x;
    ASSERT_EQ(one<f16>(x).bits, nearest_bits<f16>(x)) << std::hexfloat << x;
    ASSERT_EQ(one<bf16>(x).bits, nearest_bits<bf16>(x)) << std::hexfloat << x;
  }
}

TEST(Convert, EveryHalfSurvivesWiderTypes) {
  for (int bits = 0; bits < 65536; ++bits) {
    f16 h;
    bf16 b;
    h.bits = b.bits = static_cast<uint16_t>(bits);
    const float hf = static_cast<float>(h), bf = static_cast<float>(b);
    if (hf == hf) {
      ASSERT_EQ(one<f16>(one<double>(h)).bits, h.bits);
    } else {
      ASSERT_TRUE(std::isnan(static_cast<float>(one<f16>(one<double>(h)))));
    }
    if (bf == bf) {
      ASSERT_EQ(one<bf16>(one<double>(b)).bits, b.bits);
    } else {
      ASSERT_TRUE(std::isnan(static_cast<float>(one<bf16>(one<double>(b)))));
    }
  }
}

TEST(Convert, IntegersTakeTheNearestValueInRange) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_EQ(one<int8_t>(2.5), 2);
  EXPECT_EQ(one<int8_t>(3.5), 4);
  EXPECT_EQ(one<int8_t>(-2.5f), -2);
  EXPECT_EQ(one<int8_t>(300.0), 127);
  EXPECT_EQ(one<int8_t>(-300.0), -128);
  EXPECT_EQ(one<uint8_t>(255.4), 255);
  EXPECT_EQ(one<uint8_t>(255.5), 255);
  EXPECT_EQ(one<uint8_t>(-1.0), 0);
  EXPECT_EQ(one<int32_t>(nan), 0);
  EXPECT_EQ(one<int64_t>(inf), INT64_MAX);
  EXPECT_EQ(one<int64_t>(-inf), INT64_MIN);
  EXPECT_EQ(one<int64_t>(0x1p63), INT64_MAX);
  EXPECT_EQ(one<int64_t>(-0x1p63), INT64_MIN);
  EXPECT_EQ(one<int64_t>(0x1p62), int64_t{1} << 62);
  EXPECT_EQ(one<int32_t>(2147483647.0), INT32_MAX);
  EXPECT_EQ(one<int32_t>(f16(65504.0f)), 65504);
  EXPECT_EQ(one<int16_t>(int64_t{1} << 40), INT16_MAX);
  EXPECT_EQ(one<uint8_t>(int64_t{-5}), 0);
  EXPECT_EQ(one<float>(1e300), std::numeric_limits<float>::infinity());
  EXPECT_EQ(one<float>(int64_t{16777217}), 16777216.0f);
  EXPECT_EQ(one<double>(INT64_MAX), 0x1p63);
}

TEST(Convert, BoolsAreZeroOrOne) {
  const uint8_t odd[3] = {0, 7, 1};
  uint8_t clean[3];
  float floats[3];
  convert(DType::boolean, odd, DType::boolean, clean, 3);
  EXPECT_EQ(clean[1], 1);
  convert(DType::boolean, odd, DType::f32, floats, 3);
  EXPECT_EQ(floats[0], 0.0f);
  EXPECT_EQ(floats[1], 1.0f);
  const float values[3] = {-0.0f, 0.25f, std::nanf("")};
  convert(DType::f32, values, DType::boolean, clean, 3);
  EXPECT_EQ(clean[0], 0);
  EXPECT_EQ(clean[1], 1);
  EXPECT_EQ(clean[2], 1);
}

TEST(Convert, EveryPairWorksUnaligned) {
  const std::vector<DType> all = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,
                                  DType::i32, DType::i16, DType::i8,   DType::u8,  DType::boolean};
  const double ones[5] = {1, 0, 1, 1, 0};
  for (DType from : all)
    for (DType to : all) {
      std::vector<std::byte> a(41), b(41), c(41);
      double back[5];
      convert(DType::f64, ones, from, a.data() + 1, 5);
      convert(from, a.data() + 1, to, b.data() + 1, 5);
      convert(to, b.data() + 1, DType::f64, back, 5);
      for (int i = 0; i < 5; ++i) EXPECT_EQ(back[i], ones[i]) << name(from) << " to " << name(to);
      EXPECT_EQ(b[0], std::byte{0});
      if (size_of(to) < 8) {
        EXPECT_EQ(b[static_cast<size_t>(1 + 5 * size_of(to))], std::byte{0});
      }
    }
  convert(DType::f32, nullptr, DType::f64, nullptr, 0);
  EXPECT_THROW(convert(DType::f32, nullptr, DType::f64, nullptr, -1), Error);
}

}  // namespace test_files_convert

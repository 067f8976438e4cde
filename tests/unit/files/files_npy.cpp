#include "files/npy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "files/safetensors.h"
#include "tests/unit/files_temporary.h"

using namespace ravine;

namespace test_files_npy {

std::string npy(const std::string& header, size_t data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + std::string(data, 'x');
}

NpyArray parse(const std::string& bytes) { return parse_npy(std::as_bytes(std::span(bytes)), "there.npy"); }

TEST(Npy, ReadsWhatNumpyWrites) {
  SafetensorsReader same(golden("all_types.safetensors"));
  for (const char* name : {"f32", "i64", "u8", "bool", "scalar"}) {
    const NpyArray array = read_npy(golden(std::string(name) + ".npy"));
    const TensorInfo& t = same.tensor(name);
    EXPECT_EQ(array.dtype, t.dtype) << name;
    EXPECT_EQ(array.shape, t.shape) << name;
    EXPECT_TRUE(std::ranges::equal(array.bytes, same.bytes(t))) << name;
  }
}

// tools/golden/check_files.py sets the folder, then loads what is left there with NumPy.
TEST(Npy, RoundTrips) {
  TemporaryFolder temporary;
  const char* kept = std::getenv("RAVINE_SAMPLE_FOLDER");
  const std::string folder = kept ? kept : temporary.path();
  std::vector<std::byte> bytes(2 * 3 * 8);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 2);
  for (DType t : {DType::f64, DType::f32, DType::f16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8, DType::boolean})
    for (const Shape& shape : {Shape{2, 3}, Shape{6}, Shape{1, 2, 1, 3, 1}, Shape{}, Shape{0, 3}}) {
      const auto data = std::span(bytes).first(static_cast<size_t>(shape.count() * size_of(t)));
      const std::string path = fmt::format("{}/sample_{}_{}.npy", folder, name(t), fmt::join(shape.begin(), shape.end(), "x"));
      write_npy(path, t, shape, data);
      const std::string file = slurp(path);
      EXPECT_EQ((file.size() - data.size()) % 64, 0u);
      const NpyArray back = read_npy(path);
      EXPECT_EQ(back.dtype, t);
      EXPECT_EQ(back.shape, shape);
      EXPECT_TRUE(std::ranges::equal(back.bytes, data));
    }
  EXPECT_THROW(write_npy(folder + "/no.npy", DType::bf16, {1}, std::span(bytes).first(2)), Error);
  EXPECT_THROW(write_npy(folder + "/no.npy", DType::f32, {2}, std::span(bytes).first(4)), Error);
}

TEST(Npy, RefusesWhatItCannotRead) {
  const std::vector<std::pair<std::string, const char*>> table = {
      {"", "magic"},
      {"\x93NUMPY\x01", "magic"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4, 4), "versions"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4).substr(0, 30), "truncated"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 4), "takes 8 bytes"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 8), "takes 4 bytes"},
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", 4), "Fortran"},
      {npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", 4), "True or False"},
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4), "'>f4'"},
      {npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 4), "'|O'"},
      {npy("{'descr': '<u2', 'fortran_order': False, 'shape': (1,), }", 2), "'<u2'"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4), "plain string"},
      {npy("{'fortran_order': False, 'shape': (1,), }", 4), "must hold"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4), "repeated"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4), "number"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 4), "too large"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2), }", 4), "too large"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1), }", 4), "5 dims"},
      {npy("{'descr': '<f4", 4), "does not end"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,", 4), "number"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } 7", 4), "must end"},
      {npy("", 0), "'{'"},
  };
  for (const auto& [bytes, expected] : table) {
    const std::string text = message_of<UserError>([&] { parse(bytes); });
    EXPECT_NE(text.find(expected), std::string::npos) << text;
    EXPECT_NE(text.find("there.npy"), std::string::npos) << text;
  }
  EXPECT_THROW(read_npy(golden("fortran.npy")), UserError);
  EXPECT_THROW(read_npy(golden("big_endian.npy")), UserError);
  EXPECT_EQ(parse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4, 2)).shape, (Shape{1}));
  EXPECT_EQ(parse(npy("{\"shape\":(),\"descr\":\"<u1\",\"fortran_order\":False}", 1)).dtype, DType::u8);
}

TEST(Npy, DamageNeverPassesTheBounds) {
  const std::string whole = slurp(golden("f32.npy"));
  std::mt19937 random(2);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    if (round % 2) bytes.resize(random() % (bytes.size() + 1));
    try {
      const NpyArray array = parse(bytes);
      ASSERT_EQ(static_cast<int64_t>(array.bytes.size()), array.shape.count() * size_of(array.dtype));
    } catch (const UserError&) {
    }
  }
}

}  // namespace test_files_npy

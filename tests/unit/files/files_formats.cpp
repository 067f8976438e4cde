// Contents of formats that Ravine's own writers do not write: every type of MindSpore's .ckpt and of torch.save, pieces
// of one tensor, shapes in both spellings.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "files/mindspore_ckpt.h"
#include "files/torch_file.h"
#include "files/torch_save.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_files_formats {

std::string varint(uint64_t v) {
  std::string out;
  for (; v >= 128; v >>= 7) out += static_cast<char>(v | 128);
  return out + static_cast<char>(v);
}
std::string field(int number, const std::string& bytes) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string whole_field(int number, uint64_t v) { return varint(static_cast<uint64_t>(number) << 3) + varint(v); }

std::string entry(const std::string& name, const std::vector<uint64_t>& shape, const std::string& type,
                  const std::string& content, bool packed = false) {
  std::string dims;
  for (uint64_t d : shape) dims += packed ? varint(d) : whole_field(1, d);
  if (packed) dims = field(1, dims);
  return field(1, field(1, name) + field(2, dims + field(2, type) + field(3, content)));
}

std::vector<std::byte> read_all(const CkptFile& f, const TensorInfo& t) {
  std::vector<std::byte> out(static_cast<size_t>(t.end));
  f.read(t, 0, out);
  return out;
}

TEST(Ckpt, EveryTypeAndBothSpellingsOfAShape) {
  const std::pair<const char*, DType> types[] = {{"Float32", DType::f32}, {"Float16", DType::f16}, {"BFloat16", DType::bf16},
                                                 {"Float64", DType::f64}, {"Int64", DType::i64},   {"Int32", DType::i32},
                                                 {"Int16", DType::i16},   {"Int8", DType::i8},     {"UInt8", DType::u8},
                                                 {"Bool", DType::boolean}};
  TemporaryFolder f;
  std::string all;
  for (const auto& [type, dtype] : types)
    all += entry(type, {2, 3}, type, std::string(static_cast<size_t>(6 * size_of(dtype)), static_cast<char>(size_of(dtype))),
                 dtype == DType::f16);
  all += entry("a text", {}, "Str", "words") + entry("epoch", {}, "Int32", std::string("\7\0\0\0", 4)) +
         entry("long", {200}, "UInt8", std::string(200, 'x'));
  for (const char* tail : {"", "crc_num0123456789"}) {
    spill(f / "a.ckpt", all + tail);
    const CkptFile file(f / "a.ckpt");
    EXPECT_EQ(file.tensors().size(), 12u) << "texts are no tensors";
    for (const auto& [type, dtype] : types) {
      const TensorInfo* t = file.find(type);
      ASSERT_TRUE(t) << type;
      EXPECT_TRUE(t->dtype == dtype && t->shape == (Shape{2, 3})) << type;
      EXPECT_EQ(read_all(file, *t),
                std::vector<std::byte>(static_cast<size_t>(6 * size_of(dtype)), static_cast<std::byte>(size_of(dtype))));
    }
    EXPECT_EQ(file.find("epoch")->shape.rank(), 0);
    EXPECT_EQ(file.find("long")->shape, (Shape{200})) << "a number of two bytes";
  }
}

TEST(Ckpt, PiecesOfATensorAreOne) {
  TemporaryFolder f;
  std::string bytes(24, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  spill(f / "a.ckpt", entry("x", {6}, "Float32", bytes.substr(0, 7)) + entry("y", {1}, "Int8", "z") +
                          entry("x", {6}, "Float32", bytes.substr(7, 1)) + entry("x", {6}, "Float32", bytes.substr(8)));
  const CkptFile file(f / "a.ckpt");
  const TensorInfo& x = *file.find("x");
  ASSERT_EQ(file.tensors().size(), 2u);
  for (int64_t begin = 0; begin <= 24; ++begin)
    for (int64_t n = 0; begin + n <= 24; ++n) {
      std::vector<std::byte> got(static_cast<size_t>(n));
      file.read(x, begin, got);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(got.data()), got.size()),
                bytes.substr(static_cast<size_t>(begin), got.size()))
          << begin << " " << n;
    }
  EXPECT_EQ(std::memcmp(file.bytes(x).data(), bytes.data(), 24), 0);
  EXPECT_EQ(static_cast<char>(file.bytes(*file.find("y"))[0]), 'z');
}

TEST(Ckpt, WhatIsWrongIsNamed) {
  TemporaryFolder f;
  auto refusal = [&](const std::string& bytes) {
    spill(f / "a.ckpt", bytes);
    return message_of<UserError>([&] { CkptFile file(f / "a.ckpt"); });
  };
  const std::string four(4, 'a');
  const std::pair<std::string, const char*> table[] = {
      {entry("x", {2}, "Float32", four), "shape [2] of f32 takes 8 bytes, the file holds 4"},
      {entry("x", {1}, "Float32", four) + entry("x", {1}, "Int32", four), "its pieces have two shapes or types"},
      {entry("x", {1}, "Float32", four) + entry("x", {1}, "Float32", four), "takes 4 bytes, the file holds 8"},
      {entry("x", {1}, "Complex64", four), "its type 'Complex64' is not known"},
      {entry("", {1}, "Float32", four), "each entry has a name"},
      {field(1, field(1, "x")), "an entry holds a tensor"},
      {field(1, field(1, "x") + field(3, "table")), "tables of hash maps are not supported"},
      {field(2, "x"), "got field 2"},
      {entry("x", {1, 1, 1, 1, 1, 1}, "Float32", four), "at most 5 sizes"},
      {entry("x", {1}, "Float32", four).substr(0, 10), "leaves its message"},
      {entry("x", {uint64_t{1} << 48, uint64_t{1} << 48}, "Float32", four), "is too large"},
      {std::string(1, '\x0b'), "begins no field"},
      {"\x08" + std::string(11, '\xff'), "is too long"},
      {"\x08\xff", "ends inside a number"}};
  for (const auto& [bytes, words] : table)
    EXPECT_NE(refusal(bytes).find(words), std::string::npos) << words << ": " << refusal(bytes);
}

TEST(TorchSave, EveryTypeShapeAndNumberComesBack) {
  TemporaryFolder f;
  const DType types[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,
                         DType::i32, DType::i16, DType::i8,   DType::u8,  DType::boolean};
  const Shape shapes[] = {{2, 3}, {}, {0, 4}, {5}, {2, 1, 3, 1, 2}};
  const int64_t numbers[] = {0,         1,        -1, INT32_MAX, INT32_MIN, int64_t{INT32_MAX} + 1, int64_t{INT32_MIN} - 1,
                             INT64_MAX, INT64_MIN};
  TorchSave out(f / "a.pt");
  out.begin_dict();
  out.text("numbers"), out.begin_list();
  for (int64_t n : numbers) out.integer(n);
  out.end();
  out.text("real"), out.real(-0.1), out.text("yes"), out.boolean(true), out.text("no"), out.boolean(false), out.text("none"),
      out.none();
  out.text("t"), out.begin_ordered_dict();
  for (DType t : types)
    for (size_t s = 0; s < std::size(shapes); ++s) out.text(std::string(name(t)) + std::to_string(s)), out.tensor(t, shapes[s]);
  out.end();
  out.end();
  std::vector<std::byte> zeros(200);
  char next = 1;
  for (DType t : types)
    for (const Shape& s : shapes) {
      const std::vector<std::byte> data(static_cast<size_t>(s.count() * size_of(t)), static_cast<std::byte>(next++));
      for (size_t at = 0; at < data.size(); at += 5)
        out.write(std::span(data).subspan(at, std::min<size_t>(5, data.size() - at)));
    }
  out.commit();
  const TorchFile file(f / "a.pt");
  const Pickle& p = file.pickle();
  const Pickle::Ref list = *p.find(p.root(), "numbers");
  for (size_t i = 0; i < std::size(numbers); ++i) EXPECT_EQ(p.integer(p.items(list)[i]), numbers[i]);
  EXPECT_EQ(p.real(*p.find(p.root(), "real")), -0.1);
  EXPECT_TRUE(p.boolean(*p.find(p.root(), "yes")) == true && p.boolean(*p.find(p.root(), "no")) == false &&
              p.is_none(*p.find(p.root(), "none")));
  next = 1;
  for (DType t : types)
    for (size_t s = 0; s < std::size(shapes); ++s, ++next) {
      const TorchTensor got = file.tensor(*p.find(*p.find(p.root(), "t"), std::string(name(t)) + std::to_string(s)), "x");
      EXPECT_TRUE(got.dtype == t && got.shape == shapes[s] && got.contiguous()) << name(t) << s;
      std::vector<std::byte> data(static_cast<size_t>(got.bytes()));
      file.read(got, 0, data);
      EXPECT_EQ(data, std::vector<std::byte>(data.size(), static_cast<std::byte>(next)));
    }
}

}  // namespace test_files_formats
}  // namespace ravine

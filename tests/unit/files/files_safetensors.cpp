#include "files/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/unit/files_temporary.h"

using namespace ravine;

namespace test_files_safetensors {

std::string file_of(const std::string& header, size_t data, int64_t length = -1) {
  const uint64_t n = length < 0 ? header.size() : static_cast<uint64_t>(length);
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(n >> (8 * i));
  return bytes + header + std::string(data, 'x');
}

std::string refusal(const std::string& bytes) {
  TemporaryFolder folder;
  const std::string path = folder / "bad.safetensors";
  spill(path, bytes);
  const std::string text = message_of<UserError>([&] { SafetensorsReader reader(path); });
  EXPECT_NE(text.find(path), std::string::npos) << "does not name the file: " << text;
  return text;
}

std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s)); }

struct Bad {
  const char* header;
  size_t data;
  const char* expected;
  const char* tensor = "";
};

TEST(Safetensors, EveryCorruptionIsRefusedByName) {
  const std::vector<Bad> table = {
      {R"()", 0, "not JSON"},
      {R"(nonsense)", 0, "not JSON"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4, "not JSON"},
      {"{\"a\xff\":{}}", 0, "not JSON"},
      {R"([])", 0, "must be a JSON object"},
      {R"(3)", 0, "must be a JSON object"},
      {R"({"a":3})", 0, "must be described by an object", "a"},
      {R"({"a":[1]})", 0, "must be described by an object", "a"},
      {R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4, "F8_E4M3", "a"},
      {R"({"a":{"dtype":"U16","shape":[2],"data_offsets":[0,4]}})", 4, "U16", "a"},
      {R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", 4, "'f32'", "a"},
      {R"({"a":{"dtype":3,"shape":[1],"data_offsets":[0,4]}})", 4, "field 'dtype'", "a"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "dtype is missing", "a"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "shape is missing", "a"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "data_offsets is missing", "a"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "field 'shape'", "a"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "occurs twice", "a"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "takes 8 bytes", "a"},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,8]}})", 8, "takes 4 bytes", "a"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0, "too large", "a"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775807,9223372036854775807,0],"data_offsets":[0,0]}})", 0, "too large", "a"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4, "63 bits", "a"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "negative", "a"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, "negative", "a"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "integers", "a"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "a list", "a"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "5 dims", "a"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "must not fall", "a"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "two numbers", "a"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "two numbers", "a"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "truncated", "a"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "cover 4 bytes"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "gap", "a"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[6,10]}})", 10,
       "gap", "b"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6,
       "overlapping", "b"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})", 4,
       "overlapping", "b"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2,
       "occurs twice", "a"},
      {R"({"__metadata__":{"k":1}})", 0, "metadata 'k' must be a string"},
      {R"({"__metadata__":{"k":{}}})", 0, "metadata 'k' must be a string"},
      {R"({"__metadata__":"k"})", 0, "must be described by an object"},
  };
  for (const Bad& bad : table) {
    const std::string text = refusal(file_of(bad.header, bad.data));
    EXPECT_NE(text.find(bad.expected), std::string::npos) << bad.header << "\n" << text;
    if (*bad.tensor) {
      EXPECT_NE(text.find(std::string("tensor '") + bad.tensor + "'"), std::string::npos) << text;
    }
  }
}

TEST(Safetensors, LyingLengthsAreRefused) {
  EXPECT_NE(refusal("").find("truncated"), std::string::npos);
  EXPECT_NE(refusal("1234567").find("truncated"), std::string::npos);
  EXPECT_NE(refusal(file_of("{}", 0, 3)).find("truncated"), std::string::npos);
  EXPECT_NE(refusal(file_of("{}", 0, kMaxSafetensorsHeader)).find("truncated"), std::string::npos);
  EXPECT_NE(refusal(file_of("{}", 0, kMaxSafetensorsHeader + 1)).find("at most"), std::string::npos);
  EXPECT_NE(refusal(std::string(8, '\xff') + "{}").find("at most"), std::string::npos);
}

TEST(Safetensors, EveryTruncationOfAFileIsRefused) {
  const std::string whole = slurp(golden("all_types.safetensors"));
  ASSERT_GT(whole.size(), 100u);
  for (size_t n = 0; n < whole.size(); n += 1 + n / 40) refusal(whole.substr(0, n));
}

TEST(Safetensors, DamagedHeadersNeverPassTheBounds) {
  const std::string whole = slurp(golden("all_types.safetensors"));
  std::mt19937 random(5);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (int k = 0; k < 1 + round % 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      const SafetensorsHeader header = parse_safetensors_header(bytes_of(bytes), static_cast<int64_t>(bytes.size()), "damaged");
      int64_t at = 0;
      for (const TensorInfo& t : header.tensors) {
        ASSERT_EQ(t.begin, at);
        ASSERT_EQ(t.end - t.begin, t.shape.count() * size_of(t.dtype));
        at = t.end;
      }
      ASSERT_EQ(header.data_begin + at, static_cast<int64_t>(bytes.size()));
    } catch (const UserError&) {
    }
  }
}

TEST(Safetensors, ReadsWhatTheReferencePackageWrites) {
  SafetensorsReader reader(golden("all_types.safetensors"));
  EXPECT_EQ(reader.tensors().size(), 14u);
  EXPECT_EQ(reader.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_EQ(reader.tensor("five").shape, (Shape{1, 2, 3, 4, 1}));
  EXPECT_EQ(reader.tensor("empty").shape, (Shape{0, 4}));
  EXPECT_TRUE(reader.bytes(reader.tensor("empty")).empty());
  EXPECT_EQ(reader.tensor("scalar").shape.rank(), 0);
  for (DType t : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8,
                  DType::boolean})
    EXPECT_EQ(reader.tensor(name(t)).dtype, t);
  int64_t limits[3];
  reader.read(reader.tensor("i64"), 0, std::as_writable_bytes(std::span(limits)));
  EXPECT_EQ(limits[0], INT64_MIN);
  EXPECT_EQ(limits[1], INT64_MAX);
  float five[24];
  std::memcpy(five, reader.bytes(reader.tensor("five")).data(), sizeof five);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(five[i], static_cast<float>(i));
  float part[2];
  reader.read(reader.tensor("five"), 8, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part[1], 3.0f);
  EXPECT_NE(reader.find("odd name \xc3\xbc \"quoted\"\n"), nullptr);
  EXPECT_THROW(reader.read(reader.tensor("five"), 92, std::as_writable_bytes(std::span(part))), Error);
  EXPECT_THROW(reader.read(reader.tensor("five"), -1, std::as_writable_bytes(std::span(part))), Error);
  const std::string text = message_of<UserError>([&] { reader.tensor("fivr"); });
  EXPECT_NE(text.find("did you mean 'five'"), std::string::npos) << text;
}

// The same tensors in the same order give the reference package's file, byte for byte.
TEST(Safetensors, WritesTheBytesOfTheReferencePackage) {
  TemporaryFolder folder;
  SafetensorsReader reader(golden("all_types.safetensors"));
  std::vector<TensorBytes> tensors;
  for (const TensorInfo& t : reader.tensors()) tensors.push_back({t.name, t.dtype, t.shape, reader.bytes(t)});
  save_safetensors(folder / "again.safetensors", tensors, {.metadata = {{"format", "pt"}}});
  EXPECT_EQ(slurp(folder / "again.safetensors"), slurp(golden("all_types.safetensors")));
  EXPECT_EQ(folder.count(), 1);
}

// tools/golden/check_files.py sets the folder, then opens what is left there with the reference package.
TEST(Safetensors, StreamsPiecesOfAnySizeAndAligns) {
  TemporaryFolder temporary;
  const char* kept = std::getenv("RAVINE_SAMPLE_FOLDER");
  const std::string folder = kept ? kept : temporary.path();
  std::string data(3'000'001, '\0');
  std::mt19937 random(3);
  for (char& c : data) c = static_cast<char>(random());
  for (int64_t align : {8, 4096}) {
    const std::string path = folder + "/sample_" + std::to_string(align) + ".safetensors";
    SafetensorsWriter writer(path, {.metadata = {{"format", "pt"}, {"note", "a \"b\" \n \xc3\xa9"}}, .data_alignment = align});
    writer.declare("a", DType::u8, {1000, 2000});
    writer.declare("nothing", DType::f32, {0});
    writer.declare("b", DType::i8, {1'000'001});
    writer.declare("last", DType::f32, {3, 0});
    for (size_t at = 0; at < data.size();) {
      const size_t n = std::min<size_t>(data.size() - at, random() % 3 ? random() % 5000 : random() % 1'500'000);
      writer.append(bytes_of(data).subspan(at, n));
      at += n;
    }
    writer.write("last", {});
    EXPECT_EQ(writer.data_begin() % align, 0);
    EXPECT_FALSE(std::filesystem::exists(path));
    writer.commit();
    EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(path)), writer.file_size());
    EXPECT_EQ(writer.checksum("a"), checksum_of(bytes_of(data).first(2'000'000)));
    EXPECT_EQ(writer.checksum("b"), checksum_of(bytes_of(data).subspan(2'000'000)));
    EXPECT_EQ(writer.checksum("nothing"), checksum_of({}));
    SafetensorsReader reader(path);
    EXPECT_EQ(reader.data_begin(), writer.data_begin());
    EXPECT_EQ(reader.metadata().at("note"), "a \"b\" \n \xc3\xa9");
    EXPECT_TRUE(std::ranges::equal(reader.bytes(reader.tensor("b")), bytes_of(data).subspan(2'000'000)));
    EXPECT_TRUE(std::ranges::equal(reader.bytes(reader.tensor("a")), bytes_of(data).first(2'000'000)));
  }
}

TEST(Safetensors, EmptyFileRoundTrips) {
  TemporaryFolder folder;
  save_safetensors(folder / "none.safetensors", {});
  SafetensorsReader reader(folder / "none.safetensors");
  EXPECT_TRUE(reader.tensors().empty());
}

// As the library reads it; of a tensor null is no description.
TEST(Safetensors, MetadataMayBeNull) {
  TemporaryFolder folder;
  spill(folder / "a.safetensors", file_of(R"({"__metadata__":null,"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
  const SafetensorsReader reader(folder / "a.safetensors");
  EXPECT_TRUE(reader.metadata().empty());
  ASSERT_EQ(reader.tensors().size(), 1u);
  EXPECT_EQ(reader.tensors()[0].name, "a");
  EXPECT_NE(refusal(file_of(R"({"a":null})", 0)).find("must be described by an object"), std::string::npos);
  EXPECT_NE(refusal(file_of(R"({"__metadata__":{"k":null}})", 0)).find("metadata 'k' must be a string"), std::string::npos);
}

// Other fields of a tensor are skipped, with any value and any number of times, as in the safetensors library 0.8.
TEST(Safetensors, OtherFieldsOfATensorArePassedOver) {
  TemporaryFolder folder;
  for (const char* more : {R"("x":1)", R"("x":-1.5)", R"("x":18446744073709551615)", R"("x":null)", R"("x":true)", R"("x":"y")",
                           R"("x":{"dtype":"F64","shape":[[9],{}]},"z":2)", R"("x":[1,[2],{"shape":[7]}],"x":3)"}) {
    for (const bool first : {false, true}) {
      const std::string fields = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
      spill(folder / "a.safetensors", file_of("{\"a\":{" + (first ? more + ("," + fields) : fields + "," + more) + "}}", 4));
      const SafetensorsReader reader(folder / "a.safetensors");
      ASSERT_EQ(reader.tensors().size(), 1U) << more;
      EXPECT_EQ(reader.tensors()[0].shape, Shape({1})) << more;
      EXPECT_EQ(reader.tensors()[0].dtype, DType::f32) << more;
    }
  }
}

TEST(Safetensors, WriterRefusesWrongUse) {
  TemporaryFolder folder;
  const std::string path = folder / "w.safetensors", four = "1234";
  {
    SafetensorsWriter writer(path);
    writer.declare("a", DType::u8, {4});
    EXPECT_THROW(writer.declare("a", DType::u8, {4}), Error);
    EXPECT_THROW(writer.declare("__metadata__", DType::u8, {4}), Error);
    writer.declare("b", DType::u8, {4});
    EXPECT_THROW(writer.write("b", bytes_of(four)), Error);
    EXPECT_THROW(writer.write("c", bytes_of(four)), Error);
    EXPECT_THROW(writer.declare("c", DType::u8, {4}), Error);
    writer.write("a", bytes_of(four));
    EXPECT_THROW(writer.write("b", bytes_of("12345")), Error);
    EXPECT_THROW(writer.append(bytes_of("12345")), Error);
    EXPECT_THROW(writer.checksum("b"), Error);
    EXPECT_THROW(writer.commit(), Error);
  }
  EXPECT_EQ(folder.count(), 0);
  EXPECT_THROW(SafetensorsWriter(path, {.data_alignment = 100}), Error);
  EXPECT_THROW(save_safetensors(path, {{"\xff", DType::u8, {4}, bytes_of(four)}}), Error);
  EXPECT_THROW(save_safetensors(path, {{"a", DType::u8, {5}, bytes_of(four)}}), Error);
  EXPECT_EQ(folder.count(), 0);
}

TEST(Safetensors, OpensOnlyRegularFiles) {
  TemporaryFolder folder;
  EXPECT_THROW(SafetensorsReader(folder / "missing"), UserError);
  EXPECT_THROW(SafetensorsReader(folder.path()), UserError);
  EXPECT_THROW(SafetensorsReader("/dev/null"), UserError);
}

TEST(Safetensors, ReadsTheSharedModels) {
  const char* shared = std::getenv("RAVINE_SHARED");
  if (!shared || !*shared) GTEST_SKIP() << "RAVINE_SHARED is not set";
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(shared) + "/golden")) {
    if (entry.path().extension() != ".safetensors") continue;
    SafetensorsReader reader(entry.path().string());
    EXPECT_FALSE(reader.tensors().empty()) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(Printable, HidesControlCharactersAndCutsBetweenCharacters) {
  EXPECT_EQ(printable("a\x1b[31m"), "a\\x1b[31m");
  std::string long_name(119, 'a');
  EXPECT_EQ(printable(long_name + "\xc3\xa9\xc3\xa9"), long_name + "...");
}

}  // namespace test_files_safetensors

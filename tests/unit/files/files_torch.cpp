#include "files/torch_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "files/safetensors.h"
#include "files/torch_save.h"
#include "files/zip.h"
#include "tests/unit/files_temporary.h"

using namespace ravine;
using namespace std::string_literals;

namespace test_files_torch {

const std::string kGolden = RAVINE_SOURCE_DIR "/tests/golden/convert/";

std::vector<std::byte> all_bytes(const TensorFile& f, const TensorInfo& t) {
  std::vector<std::byte> b(static_cast<size_t>(t.end - t.begin));
  f.read(t, 0, b);
  return b;
}

// Both formats of torch.save: every type, views, shared and strided storages, a Parameter.
TEST(TorchFile, TensorsOfEveryKind) {
  const SafetensorsReader want(kGolden + "kinds.safetensors");
  for (const char* name : {"kinds.bin", "kinds_stream.bin"}) {
    const TorchStateFile got(kGolden + name);
    EXPECT_EQ(got.tensors().size(), want.tensors().size());
    for (const TensorInfo& w : want.tensors()) {
      const TensorInfo* g = got.find(w.name);
      ASSERT_TRUE(g) << w.name;
      EXPECT_TRUE(g->dtype == w.dtype && g->shape == w.shape) << name << " " << w.name;
      const auto bytes = all_bytes(got, *g), expected = all_bytes(want, w);
      EXPECT_EQ(bytes, expected) << name << " " << w.name;
      const auto in_place = got.bytes(*g);
      EXPECT_TRUE(std::equal(in_place.begin(), in_place.end(), expected.begin(), expected.end())) << name << " " << w.name;
      // Also from the middle.
      const int64_t size = size_of(w.dtype), half = w.shape.count() / 2;
      std::vector<std::byte> rest(static_cast<size_t>((w.shape.count() - half) * size));
      got.read(*g, half * size, rest);
      EXPECT_TRUE(std::equal(rest.begin(), rest.end(), expected.begin() + half * size)) << name << " " << w.name;
    }
  }
}

// The storage of a negated view has the values with the opposite sign.
TEST(TorchFile, NegatedViews) {
  const std::string golden = RAVINE_SOURCE_DIR "/tests/golden/files/negated";
  const SafetensorsReader want(golden + ".safetensors");
  const TorchStateFile got(golden + ".bin");
  ASSERT_EQ(got.tensors().size(), want.tensors().size());
  for (const TensorInfo& w : want.tensors()) {
    const TensorInfo* g = got.find(w.name);
    ASSERT_TRUE(g && g->dtype == w.dtype && g->shape == w.shape) << w.name;
    const auto expected = all_bytes(want, w);
    const auto in_place = got.bytes(*g);
    EXPECT_EQ(all_bytes(got, *g), expected) << w.name;
    EXPECT_TRUE(std::equal(in_place.begin(), in_place.end(), expected.begin(), expected.end())) << w.name;
  }
}

// A stream of torch.save begins with its number in the form of the protocol of pickle that was asked for.
TEST(TorchFile, StreamsOfEveryProtocol) {
  const std::string golden = RAVINE_SOURCE_DIR "/tests/golden/files/";
  const SafetensorsReader want(golden + "all_types.safetensors");
  for (int protocol = 3; protocol <= 5; ++protocol) {
    const TorchStateFile got(golden + fmt::format("stream_{}.bin", protocol));
    ASSERT_EQ(got.tensors().size(), 2u);
    for (const auto& [name, same] : {std::pair{"w", "f32"}, {"n", "i64"}}) {
      ASSERT_TRUE(got.find(name)) << protocol;
      EXPECT_EQ(all_bytes(got, *got.find(name)), all_bytes(want, want.tensor(same))) << protocol << " " << name;
    }
  }
}

// Copies of what does not lie in one piece are made when they are asked for, by whatever thread asks first.
TEST(TorchFile, BytesForManyThreads) {
  const SafetensorsReader want(kGolden + "kinds.safetensors");
  for (int round = 0; round < 20; ++round) {
    const TorchStateFile got(kGolden + "kinds.bin");
    std::vector<std::jthread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (const TensorInfo& w : want.tensors()) {
          const auto bytes = got.bytes(*got.find(w.name));
          const auto expected = want.bytes(w);
          wrong += !std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end());
        }
      });
    threads.clear();
    EXPECT_EQ(wrong, 0);
  }
}

// A zip of torch.save around a pickle of our own.
std::string archive(const std::string& folder, const std::string& pickle, int64_t storage_bytes,
                    const std::string& order = "little") {
  const std::string path = folder + "/x.bin";
  ZipWriter zip(path);
  zip.add("x/data.pkl", pickle);
  zip.add("x/byteorder", order);
  zip.add("x/data/0", std::string(static_cast<size_t>(storage_bytes), '\0'));
  zip.commit();
  return path;
}

std::string number(int64_t v) {
  const bool wide = v != static_cast<int32_t>(v);
  std::string s = wide ? "\x8a\x08" : "J";
  for (int i = 0; i < (wide ? 8 : 4); ++i) s += static_cast<char>(v >> (8 * i));
  return s;
}

// {'w': a tensor of float32}
std::string tensor_pickle(int64_t numel, int64_t offset, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                          const std::string& storage = "FloatStorage", const std::string& key = "0",
                          const std::string& function = "torch._utils\n_rebuild_tensor_v2") {
  auto list = [](const std::vector<int64_t>& v) {
    std::string s = "(";
    for (int64_t x : v) s += number(x);
    return s + "t";
  };
  return "}U\x01wc" + function + "\n((U\x07storagectorch\n" + storage + "\nU" + std::string(1, static_cast<char>(key.size())) +
         key +
         "U\x03"
         "cpu" +
         number(numel) + "tQ" + number(offset) + list(sizes) + list(strides) + "\x89}tRs.";
}

TEST(TorchFile, EveryLieIsNamed) {
  TemporaryFolder folder;
  auto refusal = [&](const std::string& pickle, int64_t bytes = 24, const std::string& order = "little") {
    const std::string path = archive(folder.path(), pickle, bytes, order);
    const std::string text = message_of<UserError>([&] { TorchStateFile file(path); });
    EXPECT_NE(text.find(path), std::string::npos) << text;
    return text;
  };
#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
  {
    const TorchStateFile fine(archive(folder.path(), tensor_pickle(6, 0, {2, 3}, {3, 1}), 24));
    EXPECT_TRUE(fine.find("w")->shape == (Shape{2, 3}));
  }
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 1, {2, 3}, {3, 1})), "its last element is number 6 of a storage of 6");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 0, {2, 3}, {4, 1})), "its last element is number 6 of a storage of 6");
  EXPECT_CONTAINS(refusal(tensor_pickle(7, 0, {2, 3}, {3, 1})), "says 7 elements of 4 bytes, the file holds 24");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, int64_t{1} << 62, {0}, {1})),
                  "it begins at element 4611686018427387904 of a storage of 6");
  EXPECT_TRUE(TorchStateFile(archive(folder.path(), tensor_pickle(6, 6, {0}, {1}), 24)).find("w")->shape == Shape{0});
  EXPECT_CONTAINS(refusal(tensor_pickle(6, -1, {2, 3}, {3, 1})), "its offset is a whole number");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 0, {2, -3}, {3, 1})), "whole numbers");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 0, {2, 3}, {3})), "as many strides as sizes");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 0, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1})), "at most 5 numbers");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 0, {1 << 30, 1 << 30, 1 << 30}, {0, 0, 0})), "is too large");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 0, {1 << 20}, {0})), "it repeats 6 stored elements");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 0, {2, 3}, {3, 1}, "FloatStorage", "1")), "its storage '1' is not in the file");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 0, {2, 3}, {3, 1}, "QInt8Storage")), "'torch.QInt8Storage' is not known");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 0, {2, 3}, {3, 1}), 24, "big"), "the file says 'big'");
  EXPECT_CONTAINS(refusal("}U\x01wK\x05s."), "it is an integer, which is not executed");
  EXPECT_CONTAINS(refusal(tensor_pickle(6, 0, {2, 3}, {3, 1}, "FloatStorage", "0", "os\nsystem")),
                  "it is os.system(...), which is not executed");
  EXPECT_CONTAINS(refusal("cos\nsystem\n(U\x04trueetR."), "bad pickle");
  EXPECT_CONTAINS(refusal("cos\nsystem\n(U\x04truetR."), "a dict of tensors, it holds os.system(...)");
  EXPECT_CONTAINS(refusal("}K\x01N"
                          "s."),
                  "named by strings");
  // A dict inside itself.
  EXPECT_CONTAINS(refusal("}q\x01U\x01"
                          "ah\x01s."),
                  "nested too deeply");
}

TEST(TorchFile, TruncatedFilesAreRefused) {
  TemporaryFolder folder;
  for (const char* name : {"kinds.bin", "kinds_stream.bin"}) {
    const std::string whole = slurp(kGolden + name);
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 97) {
      spill(folder / "t.bin", whole.substr(0, size));
      message_of<UserError>([&] { TorchStateFile file(folder / "t.bin"); });
    }
  }
  spill(folder / "t.bin", "not a torch file at all");
  EXPECT_CONTAINS(message_of<UserError>([&] { TorchStateFile file(folder / "t.bin"); }), "this is neither");
}

TEST(Zip, ReadsWhatItWritesAlsoAsZip64) {
  TemporaryFolder folder;
  for (uint64_t limit : {uint64_t{0xffffffff}, uint64_t{3}, uint64_t{0}}) {
    {
      ZipWriter zip(folder / "a.zip", limit);
      zip.add("a/one", "first");
      zip.add("a/empty", "");
      zip.add("a/two", std::string(1000, 'x'));
      zip.commit();
    }
    const std::string bytes = slurp(folder / "a.zip");
    const auto members = parse_zip(std::as_bytes(std::span(bytes)), "a.zip");
    ASSERT_EQ(members.size(), 3u);
    EXPECT_EQ(bytes.substr(static_cast<size_t>(members[0].begin), static_cast<size_t>(members[0].size)), "first");
    EXPECT_EQ(members[1].size, 0);
    EXPECT_EQ(members[2].size, 1000);
    for (const ZipMember& m : members) EXPECT_EQ(m.begin % 64, 0);
  }
}

TEST(Zip, EveryLieIsNamed) {
  TemporaryFolder folder;
  {
    ZipWriter zip(folder / "a.zip");
    zip.add("a", "first");
    zip.add("b", "other");
    zip.commit();
  }
  const std::string good = slurp(folder / "a.zip");
  const size_t central = good.find("PK\x01\x02"), second = good.find("PK\x01\x02", central + 1), end = good.find("PK\x05\x06");
  auto with = [&](size_t at, const std::string& bytes) {
    std::string bad = good;
    bad.replace(at, bytes.size(), bytes);
    return message_of<UserError>([&] { parse_zip(std::as_bytes(std::span(bad)), "a.zip"); });
  };
  EXPECT_CONTAINS(with(end, "xx"), "must end with a directory");
  EXPECT_CONTAINS(with(end + 4, "\x01"), "several disks");
  EXPECT_CONTAINS(with(end + 10, "\x03"), "several disks");
  EXPECT_CONTAINS(with(end + 16, "\xff\xff\xff\x00"s), "its directory says");
  EXPECT_CONTAINS(with(central, "xx"), "entry 0 of 2 in its directory is damaged");
  EXPECT_CONTAINS(with(central + 10, "\x08"), "this one is compressed");
  EXPECT_CONTAINS(with(central + 8, "\x09"), "encrypted");
  EXPECT_CONTAINS(with(central + 24, "\x06"), "compressed");
  EXPECT_CONTAINS(with(central + 20, "\xff\x00\x00\x00\xff"s), "leave the data");
  EXPECT_CONTAINS(with(central + 46, "c"), "its local header has another name");
  EXPECT_CONTAINS(with(second + 46, "a"), "the name occurs twice");
  EXPECT_CONTAINS(with(second + 42, std::string("\x00\x00", 2)), "its local header has another name");
  EXPECT_CONTAINS(with(central + 42, "\x01"), "no local header");
  EXPECT_CONTAINS(with(central + 28, "\xff\xff"), "runs past the directory");
  EXPECT_CONTAINS(with(central + 20, "\xff\xff\xff\xff\xff\xff\xff\xff"), "it needs a zip64 field");
  for (size_t size = 0; size < good.size(); ++size)
    message_of<UserError>([&] { parse_zip(std::as_bytes(std::span(good).first(size)), "a.zip"); });
  // Two names for one member's bytes.
  std::string overlap = good;
  overlap.replace(second + 42, 4, good.substr(central + 42, 4));
  overlap[second + 46] = 'a', overlap[central + 46] = 'a';
  EXPECT_CONTAINS(message_of<UserError>([&] { parse_zip(std::as_bytes(std::span(overlap)), "a.zip"); }),
                  "the name occurs twice");
}

TEST(TorchSave, ReadsBack) {
  TemporaryFolder folder;
  std::vector<float> a(6);
  std::iota(a.begin(), a.end(), 1.f);
  {
    TorchSave save(folder / "s.pt");
    save.begin_dict();
    save.text("args"), save.begin_namespace();
    save.text("n"), save.integer(int64_t{1} << 40), save.text("x"), save.real(0.5), save.text("t"), save.type(DType::bf16),
        save.text("none"), save.none();
    save.end();
    save.text("model"), save.begin_ordered_dict();
    save.text("a"), save.tensor(DType::f32, {2, 3});
    save.text("e"), save.tensor(DType::f16, {0, 3});
    save.text("b"), save.tensor(DType::f32, {6});
    save.end();
    save.end();
    save.write(std::as_bytes(std::span(a)).first(10));
    save.write(std::as_bytes(std::span(a)).subspan(10));
    save.write(std::as_bytes(std::span(a)));
    save.commit();
  }
  const TorchFile file(folder / "s.pt");
  const Pickle& p = file.pickle();
  const auto args = *p.find(p.root(), "args");
  EXPECT_EQ(p.integer(*p.find(args, "n")), int64_t{1} << 40);
  EXPECT_EQ(p.real(*p.find(args, "x")), 0.5);
  EXPECT_EQ(p.global(*p.find(args, "t")), "torch.bfloat16");
  const TorchStateFile state(folder / "s.pt");
  EXPECT_TRUE(state.find("a")->shape == (Shape{2, 3}) && state.find("e")->shape == (Shape{0, 3}));
  const auto bytes = all_bytes(state, *state.find("b"));
  EXPECT_EQ(std::memcmp(bytes.data(), a.data(), 24), 0);
}

}  // namespace test_files_torch

#include "files/compressed.h"

#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <random>

#include "base/error.h"
#include "tests/unit/files_temporary.h"

using namespace ravine;

namespace test_files_compressed {

std::string expected_text() {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "line " + std::to_string(i) + " of the text \xc3\xa9\n";
  return text;
}

std::string gzip(const std::string& text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.erase(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

std::string zstd_with(const std::string& text, int checksum) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

std::string zstd(const std::string& text) { return zstd_with(text, 1); }

std::string xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                                    reinterpret_cast<uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

struct Kind {
  const char* suffix;
  std::string (*pack)(const std::string&);
};
const Kind kKinds[] = {{".gz", gzip}, {".zst", zstd}, {".xz", xz}};

TEST(Compressed, ReadsWhatPythonWrites) {
  EXPECT_EQ(read_whole(golden("text.gz"), 1 << 20), expected_text());
  EXPECT_EQ(read_whole(golden("text.xz"), 1 << 20), expected_text());
}

TEST(Compressed, AnySizeOfReadGivesTheSameBytes) {
  TemporaryFolder folder;
  std::mt19937 random(4);
  std::string text(2'500'000, '\0');  // does not compress: many refills
  for (char& c : text) c = static_cast<char>(random());
  text += std::string(3'000'000, 'a');  // much more out than in
  for (const Kind& kind : kKinds) {
    const std::string path = folder / (std::string("text") + kind.suffix);
    const size_t cut = 1'700'003;
    spill(path, kind.pack(text.substr(0, cut)) + kind.pack("") + kind.pack(text.substr(cut)));
    for (size_t size : {size_t{777}, size_t{1} << 16, size_t{6'000'000}}) {
      auto source = open_bytes(path);
      std::string got;
      std::vector<std::byte> buffer(size);
      while (size_t n = source->read(buffer)) {
        got.append(reinterpret_cast<const char*>(buffer.data()), n);
        if (n < size) break;
      }
      EXPECT_TRUE(got == text) << kind.suffix << " in pieces of " << size;
      EXPECT_EQ(source->read(buffer), 0u);
    }
  }
}

// Without a checksum behind it, the last block is read while most of its text is still held back.
TEST(Compressed, ZstdHandsOutWhatItHolds) {
  TemporaryFolder folder;
  const std::string text = expected_text(), path = folder / "text.zst";
  spill(path, zstd_with(text, 0));
  for (size_t size : {size_t{100}, text.size() - 1, text.size()}) {
    auto source = open_bytes(path);
    std::vector<std::byte> buffer(size);
    std::string got;
    while (size_t n = source->read(buffer)) got.append(reinterpret_cast<const char*>(buffer.data()), n);
    EXPECT_TRUE(got == text) << size;
  }
}

TEST(Compressed, OutputThatJustFitsEndsCleanly) {
  TemporaryFolder folder;
  const std::string text(100'000, 'b');
  for (const Kind& kind : kKinds) {
    const std::string path = folder / (std::string("text") + kind.suffix);
    spill(path, kind.pack(text));
    auto source = open_bytes(path);
    std::vector<std::byte> buffer(text.size());
    EXPECT_EQ(source->read(buffer), text.size());
    EXPECT_EQ(source->read(buffer), 0u) << kind.suffix;
  }
}

TEST(Compressed, TruncatedAndDamagedDataIsRefused) {
  TemporaryFolder folder;
  std::string text = expected_text();
  std::mt19937 random(9);
  for (const Kind& kind : kKinds) {
    const std::string path = folder / (std::string("bad") + kind.suffix), whole = kind.pack(text);
    for (size_t n = 0; n < whole.size(); n += 1 + n / 10) {
      spill(path, whole.substr(0, n));
      const std::string message = message_of<UserError>([&] { read_whole(path, 1 << 24); });
      EXPECT_NE(message.find(path), std::string::npos);
      EXPECT_NE(message.find("truncated"), std::string::npos) << kind.suffix << " cut to " << n << ": " << message;
    }
    for (int round = 0; round < 300; ++round) {
      std::string bytes = whole;
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << (random() % 8));
      spill(path, bytes);
      try {
        // A change that no checksum covers (a time stamp in a header) may pass, but then the text is whole.
        EXPECT_EQ(read_whole(path, 1 << 24), text);
      } catch (const UserError&) {
      }
    }
    spill(path, whole + "trailing garbage");
    EXPECT_THROW(read_whole(path, 1 << 24), UserError) << kind.suffix;
    spill(path, text);
    EXPECT_THROW(read_whole(path, 1 << 24), UserError) << kind.suffix;
  }
  spill(folder / "padded.gz", gzip(text) + std::string(1000, '\0'));
  EXPECT_EQ(read_whole(folder / "padded.gz", 1 << 24), text);
}

TEST(Compressed, WholeFilesHaveALimit) {
  TemporaryFolder folder;
  spill(folder / "plain.txt", std::string(1000, 'a'));
  EXPECT_EQ(read_whole(folder / "plain.txt", 1000).size(), 1000u);
  EXPECT_THROW(read_whole(folder / "plain.txt", 999), UserError);
  spill(folder / "bomb.gz", gzip(std::string(50'000'000, '\0')));
  EXPECT_THROW(read_whole(folder / "bomb.gz", 1'000'000), UserError);
  EXPECT_THROW(read_whole(folder / "missing.gz", 1), UserError);
  EXPECT_THROW(open_bytes(folder.path()), UserError);
}

std::vector<std::string> lines_of(const std::string& path, int64_t limit = 1 << 20) {
  LineReader reader(path, limit);
  std::vector<std::string> lines;
  while (auto line = reader.next()) {
    lines.emplace_back(*line);
    EXPECT_EQ(reader.line_number(), static_cast<int64_t>(lines.size()));
  }
  EXPECT_FALSE(reader.next());
  return lines;
}

TEST(Lines, AreSplitAtNewlinesOnly) {
  TemporaryFolder folder;
  const std::string path = folder / "lines.txt";
  const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {"", {}}, {"\n", {""}}, {"a", {"a"}}, {"a\n", {"a"}}, {"a\n\nb", {"a", "", "b"}}, {"a\r\nb\r", {"a\r", "b\r"}}};
  for (const auto& [text, lines] : table) {
    spill(path, text);
    EXPECT_EQ(lines_of(path), lines) << text;
  }
  const std::string nul("x\0y\n", 4);
  spill(path, nul);
  EXPECT_EQ(lines_of(path), std::vector<std::string>{nul.substr(0, 3)});
}

TEST(Lines, OfAnyLengthComeBackWhole) {
  TemporaryFolder folder;
  std::mt19937 random(6);
  std::vector<std::string> lines;
  std::string text;
  for (int i = 0; i < 300; ++i) {
    lines.emplace_back(random() % 4 ? random() % 100 : random() % 200'000, static_cast<char>('a' + i % 26));
    text += lines.back() + "\n";
  }
  for (const Kind& kind : kKinds) {
    const std::string path = folder / (std::string("long.txt") + kind.suffix);
    spill(path, kind.pack(text));
    EXPECT_TRUE(lines_of(path) == lines) << kind.suffix;
  }
}

TEST(Lines, TooLongOnesAreRefusedByNumber) {
  TemporaryFolder folder;
  const std::string path = folder / "lines.txt";
  spill(path, "short\n" + std::string(1001, 'a') + "\n");
  const std::string text = message_of<UserError>([&] { lines_of(path, 1000); });
  EXPECT_NE(text.find(path + ":2"), std::string::npos) << text;
  EXPECT_EQ(lines_of(path, 1001).size(), 2u);
}

}  // namespace test_files_compressed

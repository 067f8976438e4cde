#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "data/indexed/indexed_file.h"
#include "data/indexed/indexed_tokens.h"
#include "data/indexed/indexed_writer.h"
#include "files/temporary.h"
#include "tests/unit/megatron_golden.h"

namespace ravine {
namespace test_data_indexed {

using test::Folder;
using test::megatron;
using test::whole;
using test::write_pair;

const Json& files() { return megatron()["indexed"]["files"]; }

TEST(IndexedFile, reads_what_megatron_wrote) {
  Folder f;
  for (const auto& [name, e] : files().items()) {
    if (!e.contains("dtype")) continue;
    SCOPED_TRACE(name);
    const IndexedFile file(write_pair(f, name, e));
    EXPECT_NO_THROW(file.check());
    EXPECT_EQ(ravine::name(file.type()), e["dtype"].get<std::string>());
    ASSERT_EQ(file.sequences(), static_cast<int64_t>(e["sequence_lengths"].size()));
    ASSERT_EQ(file.documents() + 1, static_cast<int64_t>(e["document_indices"].size()));
    for (int64_t d = 0; d <= file.documents(); ++d)
      EXPECT_EQ(file.document_begin(d), e["document_indices"][static_cast<size_t>(d)].get<int64_t>());
    for (int64_t i = 0; i < file.sequences(); ++i) {
      const auto k = static_cast<size_t>(i);
      ASSERT_EQ(file.length(i), e["sequence_lengths"][k].get<int64_t>());
      EXPECT_EQ(file.begin(i) * size_of(file.type()), e["sequence_pointers"][k].get<int64_t>());
      if (file.has_modes()) {
        EXPECT_EQ(file.mode(i), e["sequence_modes"][k].get<int>());
      }
      std::vector<int32_t> ids(static_cast<size_t>(file.length(i)));
      if (name.starts_with("float")) {
        EXPECT_USER_ERROR(file.copy(i, 0, ids), "not token ids");
      } else if (name == "int64") {
        EXPECT_USER_ERROR(file.copy(i, 0, ids), "beyond any vocabulary");
      } else {
        file.copy(i, 0, ids);
        EXPECT_EQ(ids, e["tokens"][k].get<std::vector<int32_t>>());
      }
    }
    EXPECT_EQ(file.has_modes(), name == "multimodal");
  }
}

TEST(IndexedFile, refuses_damage_and_names_its_position) {
  Folder f;
  for (const auto& name : megatron()["indexed"]["refused"]) {
    const std::string prefix = write_pair(f, name, files()[name.get<std::string>()]);
    EXPECT_USER_ERROR(IndexedFile{prefix}, prefix);
  }
  EXPECT_EQ(IndexedFile(write_pair(f, "none", files()["no_documents"])).documents(), 0);
  EXPECT_USER_ERROR(IndexedFile(f / "short_bin"), "token file is cut short");
  EXPECT_USER_ERROR(IndexedFile(f / "unfinished_document"), "index is not finished");
  EXPECT_USER_ERROR(IndexedFile(f / "truncated"), "index lies about its size");
  EXPECT_USER_ERROR(IndexedFile(f / "not_there"), "cannot open file");
  EXPECT_FALSE(is_indexed_prefix(f / "not_there"));
}

// Every byte of the index changed in turn: an error of the user's, or numbers inside the file.
TEST(IndexedFile, lies_inside_are_found_when_they_are_met) {
  Folder f;
  const std::string prefix = write_pair(f, "lies", files()["int32"]), good = whole(prefix + ".idx");
  volatile int touched = 0;
  const size_t documents =
      34 + 12 * files()["int32"]["sequence_lengths"].size();  // where other borders of documents may be as good
  for (size_t i = 0; i < good.size(); i += i < 40 ? 1 : 3)
    for (int change : {0x80, 0x01}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      f.write("lies.idx", bad);
      try {
        const IndexedFile file(prefix);
        for (int64_t d = 0; d <= file.documents(); ++d) file.document_begin(d);
        for (int64_t s = 0; s < file.sequences(); ++s) {
          const auto bytes = file.bytes(s);
          if (!bytes.empty()) touched = touched + std::to_integer<int>(bytes.back());
        }
        bool checked = true;
        try {
          file.check();
        } catch (const UserError&) {
          checked = false;
        }
        EXPECT_FALSE(checked && i != 17 && i < documents) << "byte " << i << " changed by " << change;
      } catch (const UserError&) {
      }
    }
}

// 10^8 documents: only the ends are read, so memory does not grow with the documents. The file is sparse and takes no
// disk.
TEST(IndexedFile, opens_a_hundred_million_documents_in_constant_memory) {
  Folder f;
  const uint64_t n = 100'000'000, entries = n + 1, version = 1;
  const std::string path = f.write("big.idx", "");
  f.write("big.bin", "");
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  std::string head(kIndexMagic, 9);
  const uint8_t code = 4;
  head.append(reinterpret_cast<const char*>(&version), 8).append(reinterpret_cast<const char*>(&code), 1);
  head.append(reinterpret_cast<const char*>(&n), 8).append(reinterpret_cast<const char*>(&entries), 8);
  const int64_t size = kIndexHeader + 12 * static_cast<int64_t>(n) + 8 * static_cast<int64_t>(entries);
  if (::ftruncate(*fd, size) != 0) GTEST_SKIP() << "no file of 2 GB can be made here";
  write_all_at(*fd, 0, std::as_bytes(std::span(head)), path);
  write_all_at(*fd, size - 8, std::as_bytes(std::span(&n, 1)), path);
  auto resident = [] {
    long pages = 0, all = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return pages * 4096;
  };
  const long before = resident();
  const IndexedFile file(f / "big");
  EXPECT_EQ(file.documents(), 100'000'000);
  EXPECT_EQ(file.length(77'777'777), 0);
  EXPECT_LT(resident() - before, 4 << 20);
}

TEST(IndexedWriter, writes_what_megatron_writes) {
  Folder f;
  for (const auto& [name, e] : files().items()) {
    if (!e.contains("dtype")) continue;
    SCOPED_TRACE(name);
    const std::string prefix = write_pair(f, name, e);
    const IndexedFile file(prefix);
    std::filesystem::create_directories(f / "work");
    IndexedWriter w(f / "work", name, file.type(), file.has_modes());
    for (int64_t d = 0; d < file.documents(); ++d) {
      for (int64_t s = file.document_begin(d); s < file.document_begin(d + 1); ++s) {
        const int32_t length = static_cast<int32_t>(file.length(s));
        const int8_t mode = file.mode(s);
        w.add_stored(file.bytes(s), {&length, 1}, {&mode, file.has_modes() ? 1u : 0u});
      }
      w.end_document();
    }
    w.finish();
    IndexedWriter::publish(f / "work", name, f / ("copy_" + name), true);
    EXPECT_EQ(whole(f / ("copy_" + name + ".idx")), whole(prefix + ".idx"));
    EXPECT_EQ(whole(f / ("copy_" + name + ".bin")), whole(prefix + ".bin"));
  }
  for (const auto& [size, type] : megatron()["indexed"]["smallest_type"].items())
    EXPECT_EQ(ravine::name(smallest_type(std::stoll(size))), type.get<std::string>());
}

TEST(IndexedWriter, ids_are_stored_in_any_whole_type) {
  Folder f;
  for (TokenType t : {TokenType::u8, TokenType::i8, TokenType::i16, TokenType::u16, TokenType::i32, TokenType::i64}) {
    std::filesystem::create_directories(f / "work");
    IndexedWriter w(f / "work", name(t), t, false);
    const std::vector<int32_t> ids{1, 2, 3, 100}, lengths{3, 1};
    StoredDocuments d, no;
    d.add(t, ids, lengths, "here:1");
    const bool negative = t != TokenType::u8 && t != TokenType::u16;
    const std::vector<int32_t> low{-100}, one{1};
    if (negative) {
      EXPECT_NO_THROW(d.add(t, low, one, "here:2"));
    } else {
      EXPECT_USER_ERROR(no.add(t, low, one, "here:2"), "token -100 does not fit (here:2)");
    }
    const std::vector<int32_t> high{70000};
    if (size_of(t) < 4) {
      EXPECT_USER_ERROR(no.add(t, high, one, "here:3"), "token 70000 does not fit (here:3)");
    }
    w.add_documents(d);
    w.finish();
    IndexedWriter::publish(f / "work", name(t), f / name(t), true);
    const IndexedFile file(f / name(t));
    EXPECT_EQ(file.documents(), negative ? 2 : 1);
    std::vector<int32_t> back(3);
    file.copy(0, 0, back);
    EXPECT_EQ(back, (std::vector<int32_t>{1, 2, 3}));
  }
}

TEST(IndexedWriter, merges_as_megatron_does) {
  Folder f;
  std::vector<std::string> parts;
  for (const auto& part : megatron()["indexed"]["merged"])
    parts.push_back(write_pair(f, part, files()[part.get<std::string>()]));
  merge_indexed(parts, f / "all", false);
  const std::string wanted = write_pair(f, "merged", files()["merged"]);
  EXPECT_EQ(whole(f / "all.idx"), whole(wanted + ".idx"));
  EXPECT_EQ(whole(f / "all.bin"), whole(wanted + ".bin"));
  EXPECT_USER_ERROR(merge_indexed(parts, f / "all", false), "output exists");
  merge_indexed({parts[0]}, f / "all", true);
  EXPECT_EQ(whole(f / "all.idx"), whole(parts[0] + ".idx"));
  const std::string other = write_pair(f, "uint16", files()["uint16"]),
                    modes = write_pair(f, "multimodal", files()["multimodal"]);
  EXPECT_USER_ERROR(merge_indexed({parts[0], other}, f / "no", false), "types of tokens differ");
  EXPECT_USER_ERROR(merge_indexed({parts[0], modes}, f / "no", false), "multimodal and plain data do not mix");
  EXPECT_TRUE(leftovers_of(indexed_journal(f / "no")).empty() && !std::filesystem::exists(indexed_journal(f / "all")));
}

TEST(IndexedWriter, names_that_cannot_be_given_are_called_what_they_are) {
  Folder f;
  const std::string pair = write_pair(f, "a", files()["merge_part"]);
  std::filesystem::create_directories(f / "work");
  std::filesystem::copy(pair + ".bin", f / "work/a.bin");
  EXPECT_USER_ERROR(IndexedWriter::publish(f / "work", "a", pair, false), "output exists");
  EXPECT_USER_ERROR(IndexedWriter::publish(f / "work", "a", f / "none/a", false), "No such file or directory");
}

TEST(IndexedTokens, documents_of_several_files_in_one_row) {
  Folder f;
  const std::string a = write_pair(f, "a", files()["empty_documents"]), b = write_pair(f, "b", files()["merge_part"]);
  const IndexedTokens t({a, b}, 5000);
  EXPECT_EQ(t.documents(), 6 + 4);
  std::vector<int32_t> all(static_cast<size_t>(t.tokens())), wanted;
  t.copy(0, all);
  for (const char* name : {"empty_documents", "merge_part"})
    for (const auto& sequence : files()[name]["tokens"])
      for (int32_t id : sequence.get<std::vector<int32_t>>()) wanted.push_back(id);
  EXPECT_EQ(all, wanted);
  for (int64_t token = 0; token < t.tokens(); ++token) {
    const int64_t d = t.document_at(token);
    EXPECT_LE(t.begin_of(d), token);
    EXPECT_GT(t.end_of(d), token);
  }
  EXPECT_EQ(t.origin(0, 2), a + " document 2");
  EXPECT_EQ(t.origin(0, 6), a + " document 2 to " + b + " document 1");
  EXPECT_USER_ERROR(IndexedTokens({a}, 5), "token 5 is beyond the vocabulary (" + a + ".bin)");
  // One among many is found when it is met.
  std::filesystem::create_directories(f / "work");
  IndexedWriter w(f / "work", "many", TokenType::i32, false);
  const std::vector<int32_t> good(1000, 1), bad{7}, lengths{1000}, one{1};
  StoredDocuments d;
  for (int i = 0; i < 100; ++i) d.add(TokenType::i32, good, lengths, "");
  d.add(TokenType::i32, bad, one, "");
  w.add_documents(d);
  w.finish();
  IndexedWriter::publish(f / "work", "many", f / "many", true);
  const IndexedTokens many({f / "many"}, 5);
  std::vector<int32_t> ids(2);
  many.copy(0, ids);
  EXPECT_USER_ERROR(many.copy(99'999, ids), "token 7 is beyond the vocabulary (" + (f / "many") + " document 101)");
}

std::string write_tokens(const Folder& f, const std::string& name, const std::vector<int32_t>& ids,
                         const std::vector<int32_t>& lengths, TokenType type = TokenType::i32) {
  std::filesystem::create_directories(f / "work");
  IndexedWriter w(f / "work", name, type, false);
  StoredDocuments d;
  size_t at = 0;
  for (const int32_t& n : lengths) {
    d.add(type, std::span(ids).subspan(at, static_cast<size_t>(n)), {&n, 1}, "");
    at += static_cast<size_t>(n);
  }
  w.add_documents(d);
  w.finish();
  IndexedWriter::publish(f / "work", name, f / name, true);
  return f / name;
}

// Neighbours are compared a block of 16384 at a time. A wrong value at any position of a block, also between blocks, is
// found and named by its number.
TEST(IndexedFile, lies_where_blocks_meet_are_found) {
  Folder f;
  constexpr int32_t kCount = 40000;
  std::vector<int32_t> lengths, ids;
  for (int32_t i = 0; i < kCount; ++i) lengths.push_back(1 + i % 3), ids.insert(ids.end(), static_cast<size_t>(1 + i % 3), 7);
  const std::string prefix = write_tokens(f, "many", ids, lengths), good = whole(prefix + ".idx");
  EXPECT_NO_THROW(IndexedFile(prefix).check());
  for (int32_t i : {0, 1, 16382, 16383, 16384, 16385, 32767, 32768, 39997, 39998})
    for (bool length : {true, false}) {
      if (i + 2 == kCount && !length) continue;  // where the last sequence lies is checked on opening
      std::string bad = good;
      const size_t at = length ? kIndexHeader + 4 * static_cast<size_t>(i)
                               : kIndexHeader + 4 * size_t{kCount} + 8 * static_cast<size_t>(i + 1);
      bad[at] = static_cast<char>(bad[at] + 4);
      f.write("many.idx", bad);
      EXPECT_USER_ERROR(IndexedFile(prefix).check(), fmt::format("sequence {} (document {} of {})", i + 1, i + 1, kCount));
    }
  std::string bad = good;
  bad[kIndexHeader + 3] = '\x80';
  f.write("many.idx", bad);
  EXPECT_USER_ERROR(IndexedFile(prefix).check(), "sequence 1 (");
}

// On opening 64 pieces of 512 tokens are looked at; the rest where it is met.
TEST(IndexedTokens, ids_beyond_the_vocabulary_in_the_pieces_that_are_looked_at) {
  Folder f;
  for (auto [at, found] : std::vector<std::pair<size_t, bool>>{{0, true},
                                                               {511, true},
                                                               {512, false},
                                                               {999, false},
                                                               {1000, true},
                                                               {31511, true},
                                                               {63000, true},
                                                               {63511, true},
                                                               {63999, false}}) {
    std::vector<int32_t> ids(64000, 3);
    ids[at] = 5;
    const std::string prefix = write_tokens(f, "t", ids, {64000});
    if (found) {
      EXPECT_USER_ERROR(open_token_file(prefix, 5), "token 5 is beyond the vocabulary (" + prefix + ".bin)");
    } else {
      EXPECT_NO_THROW(open_token_file(prefix, 5)) << at;
    }
    EXPECT_NO_THROW(open_token_file(prefix, 6)) << at;
    EXPECT_NO_THROW(open_token_file(prefix)) << "no vocabulary, no question";
    EXPECT_EQ(IndexedTokens({prefix}, 6).tokens(), 64000);
  }
  EXPECT_USER_ERROR(open_token_file(write_tokens(f, "s", {1, 2, 5}, {3}), 5), "token 5");
  EXPECT_USER_ERROR(open_token_file(write_tokens(f, "n", {1, -2, 3}, {3}), 5), "token -2");
  EXPECT_NO_THROW(open_token_file(write_tokens(f, "e", {}, {}), 5));
  EXPECT_USER_ERROR(open_token_file(f / "nothing", 5),
                    "no token files (" + (f / "nothing") + "): PREFIX.bin and PREFIX.idx must be there");
}

TEST(IndexedFile, ends_of_sequences_and_of_the_file) {
  Folder f;
  const IndexedFile file(write_tokens(f, "t", {1, 2, 3, 4, 5, 6}, {2, 0, 4}, TokenType::u16));
  EXPECT_EQ(file.tokens(), 6);
  std::vector<int32_t> two(2);
  file.copy(2, 2, two);
  EXPECT_EQ(two, (std::vector<int32_t>{5, 6}));
  EXPECT_THROW(file.copy(2, 3, two), Error);
  EXPECT_THROW(file.copy(0, 1, two), Error) << "never into the next sequence";
  EXPECT_NO_THROW(file.copy_range(4, two));
  EXPECT_THROW(file.copy_range(5, two), Error);
  EXPECT_EQ(file.lengths(1, 3).size(), 8u);
  EXPECT_THROW(file.length(3), Error);
  EXPECT_THROW(file.lengths(2, 4), Error);
  const std::string prefix = f / "t";
  for (const char* suffix : {"", ".bin", ".idx"}) {
    std::string found;
    EXPECT_TRUE(is_indexed_prefix(prefix + suffix, &found));
    EXPECT_EQ(found, prefix);
  }
  EXPECT_FALSE(is_indexed_prefix(f.path.string() + "/"));
  EXPECT_EQ(smallest_type(65499), TokenType::u16);
  EXPECT_EQ(smallest_type(65500), TokenType::i32);
}

}  // namespace test_data_indexed
}  // namespace ravine

// MindRecord files: files built here byte by byte, and a file written by MindSpore, if it is present.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "data/mindrecord/mindrecord_files.h"
#include "data/open_datasets.h"
#include "files/npy.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_data_mindrecord {

std::string number(uint64_t v, int bytes, bool big = false) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> 8 * (big ? bytes - 1 - i : i));
  return out;
}

// As MindSpore packs whole numbers: each in as few bytes as it needs.
std::string packed(const std::vector<int64_t>& values) {
  std::string map((values.size() + 3) / 4, '\0'), bytes;
  for (size_t i = 0; i < values.size(); ++i) {
    int size = 0;
    while (values[i] < -(int64_t{1} << (8 * (1 << size) - 1)) || values[i] >= int64_t{1} << (8 * (1 << size) - 1)) ++size;
    map[i / 4] = static_cast<char>(map[i / 4] | size << 2 * (3 - i % 4));
    bytes += number(static_cast<uint64_t>(values[i]), 1 << size);
  }
  return number(values.size(), 4, true) + map + bytes;
}

using Row = std::vector<std::vector<int64_t>>;  // of each column

// A file with these rows, the first `split` of them in one page and the rest in the next.
std::string file_of(const std::vector<Row>& rows, const std::vector<std::string>& columns, bool pack, size_t split,
                    const Json& more = Json::object()) {
  constexpr uint64_t kHead = 4096, kPage = 8192;
  Json pages = Json::array();
  std::string body;
  for (int page = 0; page < 2; ++page) {
    const size_t first = page == 0 ? 0 : split, end = page == 0 ? split : rows.size();
    std::string bytes;
    for (size_t r = first; r < end; ++r) {
      std::string row;
      for (const std::vector<int64_t>& values : rows[r]) {
        std::string one;
        if (pack)
          one = packed(values);
        else
          for (const int64_t v : values) one += number(static_cast<uint64_t>(v), 4);
        row += (columns.size() > 1 ? number(one.size(), 8, true) : "") + one;
      }
      bytes += number(row.size(), 8) + row;
    }
    // The page of raw data is between the pages of blobs.
    pages.push_back({{"page_id", 2 * page},
                     {"page_type", "BLOB_DATA"},
                     {"page_size", bytes.size()},
                     {"start_row_id", first},
                     {"end_row_id", end}});
    bytes.resize(2 * kPage);
    body += bytes;
  }
  pages.push_back({{"page_id", 1}, {"page_type", "RAW_DATA"}, {"page_size", 0}, {"start_row_id", 0}, {"end_row_id", 0}});
  Json fields = Json::object();
  for (const std::string& c : columns) fields[c] = {{"type", "int32"}, {"shape", {-1}}};
  Json header = {{"header_size", kHead},
                 {"page_size", kPage},
                 {"page", pages},
                 {"compression_size", pack ? 100 : 0},
                 {"schema", {{{"blob_fields", columns}, {"schema", fields}}}},
                 {"shard_addresses", {"a.mindrecord"}}};
  header.update(more);
  std::string head = number(header.dump().size(), 8) + header.dump();
  head.resize(kHead);
  return head + body;
}

void save(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

const std::vector<Row> kRows = {{{1, 2, 3}, {-100, 5, 6}}, {{127, 128, 255}, {-129, 32768, 70000}}, {{0, 9, 4}, {7, 7, 7}}};

TEST(MindRecord, ReadsColumnsPackedAndPlain) {
  const TemporaryFolder folder;
  for (const bool pack : {true, false})
    for (const size_t split : {0U, 1U, 3U}) {
      save(folder / "a.mindrecord", file_of(kRows, {"input_ids", "labels"}, pack, split));
      const MindRecordFiles files(folder / "a.mindrecord");
      ASSERT_EQ(files.rows(), 3);
      for (int64_t r = 0; r < 3; ++r) {
        EXPECT_EQ(files.values(r, "input_ids"), kRows[static_cast<size_t>(r)][0]) << pack << split;
        EXPECT_EQ(files.values(r, "labels"), kRows[static_cast<size_t>(r)][1]) << pack << split;
      }
    }
  std::vector<Row> one = {{{3, -4, 500000}}};
  const TemporaryFolder other;
  save(other / "b", file_of(one, {"input_ids"}, true, 1));
  EXPECT_EQ(MindRecordFiles(other / "b").values(0, "input_ids"), one[0][0]) << "one column has no length before it";
  EXPECT_TRUE(is_mindrecord_path(other / "b"));
  save(other / "a", file_of({{{9}}, {{8}}}, {"input_ids"}, true, 1));
  const MindRecordFiles all(other / ".");
  ASSERT_EQ(all.rows(), 3) << "all files of a folder";
  EXPECT_EQ(all.values(2, "input_ids"), one[0][0]) << "in the order of their names";
}

TEST(MindRecord, TakesThePartsThatItsHeaderNames) {
  const TemporaryFolder folder;
  const Json parts = {{"shard_addresses", {"w.mindrecord0", "w.mindrecord1"}}};
  save(folder / "w.mindrecord0", file_of({{{1}}, {{2}}}, {"input_ids"}, true, 2, parts));
  EXPECT_NE(error_of([&] { MindRecordFiles(folder / "w.mindrecord0"); }).find("w.mindrecord1"), std::string::npos);
  save(folder / "w.mindrecord1", file_of({{{3}}}, {"input_ids"}, true, 1, parts));
  const MindRecordFiles files(folder / "w.mindrecord0");
  ASSERT_EQ(files.rows(), 3);
  EXPECT_EQ(files.values(2, "input_ids"), std::vector<int64_t>{3});
  EXPECT_NE(files.row_name(2).find("w.mindrecord1 row 0"), std::string::npos);
  const MindRecordFiles later(folder / "w.mindrecord1"), both(folder / ".");
  ASSERT_EQ(later.rows(), 3) << "a later part stands for all";
  EXPECT_EQ(later.values(0, "input_ids"), std::vector<int64_t>{1}) << "in their order";
  EXPECT_EQ(both.rows(), 3) << "each once";
}

// Whatever byte is changed or missing, it is read or refused.
TEST(MindRecord, RefusesWhatIsDamaged) {
  const TemporaryFolder folder;
  const std::string whole = file_of(kRows, {"input_ids", "labels"}, true, 2), path = folder / "a.mindrecord";
  const auto read = [&] {
    const MindRecordFiles files(path);
    for (int64_t r = 0; r < files.rows(); ++r) (void)files.values(r, "input_ids"), (void)files.values(r, "labels");
  };
  for (const size_t size : {0UL, 7UL, 8UL, 100UL, 4096UL, 4100UL, 4120UL, 20000UL}) {
    save(path, whole.substr(0, size));
    EXPECT_NE(error_of(read), "no error") << size;
  }
  int refused = 0;
  for (const size_t page : {4096UL, 20480UL})
    for (size_t at = page; at < page + 60; ++at) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(0xFF);
      save(path, bytes);
      refused += error_of(read) != "no error";
    }
  EXPECT_GT(refused, 30);
  for (const auto& [key, value] : {std::pair<const char*, Json>{"header_size", -1},
                                   {"page_size", uint64_t{1} << 63},
                                   {"page", 3},
                                   {"schema", Json::array()},
                                   {"page", {{{"page_id", 0}}}}}) {
    save(path, file_of(kRows, {"input_ids", "labels"}, true, 2, {{key, value}}));
    EXPECT_NE(error_of(read), "no error") << key;
  }
  const Json page = {{"page_id", 0}, {"page_type", "BLOB_DATA"}, {"page_size", 16384}, {"start_row_id", 0}, {"end_row_id", 1}};
  Json again = page;
  again.update({{"start_row_id", 1}, {"end_row_id", 2}});
  save(path, file_of(kRows, {"input_ids", "labels"}, true, 2, {{"page", {page, again, again}}}));
  EXPECT_NE(error_of([&] { MindRecordFiles files(path); }).find("more bytes than the file"), std::string::npos)
      << "pages that lie on each other are as many rows as the header names pages";
  save(path, file_of(kRows, {"input_ids", "labels"}, true, 2, {{"shard_addresses", {"a.mindrecord", "a.mindrecord"}}}));
  EXPECT_NE(error_of(read).find("names it twice"), std::string::npos);
  const std::string deep =
      R"({"header_size":16,"page_size":16,"page":null,"schema":[{"blob_fields":["a"],"schema":{"a":{"type":"int32","b":)" +
      std::string(500000, '[') + std::string(500000, ']') + "}}}]}";
  save(path, number(deep.size(), 8) + deep);
  EXPECT_NE(error_of(read).find("nested too deeply"), std::string::npos);
  std::string text = file_of(kRows, {"input_ids", "labels"}, true, 2);
  text.replace(text.find("int32"), 5, "bytes");
  save(path, text);
  EXPECT_NE(error_of(read).find("int32 or int64"), std::string::npos);
}

DatasetOptions options(const std::string& path, int64_t length) {
  DatasetOptions o;
  o.train = {{path, 1, {}}};
  o.order = SampleOrder::mindspore;
  o.sequence_length = length;
  o.vocabulary = 100000;
  o.shuffle = false;
  o.batch = 2;
  return o;
}

TEST(MindRecord, RowsAreSamplesOfOneTokenLess) {
  const TemporaryFolder folder;
  save(folder / "a",
       file_of({{{1, 0, 3}, {1, 5, -100}}, {{7, 8, 9}, {7, 8, 9}}, {{4, 4, 4}, {4, 4, 4}}}, {"input_ids", "labels"}, true, 3));
  DatasetOptions o = options(folder / "a", 2);
  o.pad = 0;
  const Datasets d = open_datasets(o, nullptr);
  EXPECT_EQ(d.train->sample_count(), 2) << "the third fills no batch";
  const Sample s = d.train->sample(0);
  EXPECT_EQ(s.ids, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(s.labels, (std::vector<int32_t>{5, kIgnored})) << "a label of -100, and behind padding";
  EXPECT_EQ(s.segments, (std::vector<TokenSpan>{{0, 2}}));
  EXPECT_EQ(d.train->sample(2).ids, s.ids) << "the next epoch";
  o.pad = 1;
  EXPECT_EQ(open_datasets(o, nullptr).train->sample(0).labels, (std::vector<int32_t>{kIgnored, kIgnored}));
  o.pad = -1, o.vocabulary = 6;
  EXPECT_NE(error_of([&] { open_datasets(o, nullptr).train->sample(1); }).find("7 is out of range"), std::string::npos);
  o.vocabulary = 100, o.sequence_length = 3;
  EXPECT_NE(error_of([&] { open_datasets(o, nullptr); }).find("+ 1 = 4"), std::string::npos);
  o.sequence_length = 2, o.batch = 4;
  EXPECT_NE(error_of([&] { open_datasets(o, nullptr); }).find("fill no batch"), std::string::npos);
  o.order = SampleOrder::philox;
  EXPECT_NE(error_of([&] { open_datasets(o, nullptr); }).find("data.order=mindspore"), std::string::npos);
}

TEST(MindRecord, LabelsMayBeTargetIds) {
  const TemporaryFolder folder;
  save(folder / "a", file_of({{{1, 2, 3}, {1, -100, 5}}, {{1, 2, 3}, {1, -100, 5}}}, {"input_ids", "target_ids"}, true, 1));
  DatasetOptions o = options(folder / "a", 2);
  EXPECT_EQ(open_datasets(o, nullptr).train->sample(0).labels, (std::vector<int32_t>{kIgnored, 5}));
  o.labels = false;
  EXPECT_EQ(open_datasets(o, nullptr).train->sample(0).labels, (std::vector<int32_t>{2, 3}));
}

// MindSpore 2.7, MindDataset(shuffle=True) of 80 rows after set_seed(42): the first rows of epochs. With and without
// num_shards=1, and with num_samples=40 too.
TEST(MindRecord, ShufflesAsMindSpore) {
  const TemporaryFolder folder;
  std::vector<Row> rows;
  for (int64_t i = 0; i < 80; ++i) rows.push_back({{i, i}});
  save(folder / "a", file_of(rows, {"input_ids"}, true, 50));
  DatasetOptions o = options(folder / "a", 1);
  o.shuffle = true, o.seed = 42, o.batch = 4;
  Datasets d = open_datasets(o, nullptr);
  const auto first = [&](int64_t from) {
    std::vector<int32_t> out;
    for (int64_t i = from; i < from + 8; ++i) out.push_back(d.train->sample(i).ids[0]);
    return out;
  };
  const std::vector<int32_t> one = {46, 41, 66, 39, 79, 6, 54, 71}, two = {15, 25, 73, 60, 3, 78, 47, 45},
                             three = {38, 18, 74, 48, 35, 20, 32, 67};
  EXPECT_EQ(first(160), three);
  EXPECT_EQ(first(80), two) << "back to an earlier epoch";
  EXPECT_EQ(first(0), one);
  EXPECT_EQ(first(160), three);
  o.samples = 40;
  d = open_datasets(o, nullptr);
  EXPECT_EQ(d.train->sample_count(), 40);
  EXPECT_EQ(first(0), one);
  EXPECT_EQ(first(40), two);
  o.order = SampleOrder::mindspore_whole;
  EXPECT_NE(error_of([&] { open_datasets(o, nullptr); }).find("data.samples"), std::string::npos);
  o.samples = 0;
  d = open_datasets(o, nullptr);
  const std::vector<int32_t> second = {10, 77, 56, 58, 39, 52, 76, 16}, third = {71, 29, 66, 38, 48, 0, 65, 75};
  EXPECT_EQ(first(160), third);
  EXPECT_EQ(first(80), second) << "back to an earlier epoch";
  EXPECT_EQ(first(0), one);
  EXPECT_EQ(first(80), second);
}

TEST(MindRecord, ReadsWhatMindSporeWrote) {
  const char* shared = std::getenv("RAVINE_SHARED");
  const std::string folder = std::string(shared ? shared : "") + "/golden/mindformers/train/";
  if (!shared || !std::filesystem::exists(folder + "tiny.mindrecord")) GTEST_SKIP() << "no recorded MindRecord file";
  const MindRecordFiles files(folder + "tiny.mindrecord");
  const NpyArray tokens = read_npy(folder + "tokens.npy");
  ASSERT_EQ(files.rows(), 80);
  const auto* ids = reinterpret_cast<const int32_t*>(tokens.bytes.data());
  for (int64_t r = 0; r < 80; ++r)
    EXPECT_EQ(files.values(r, "input_ids"), std::vector<int64_t>(ids + r * 33, ids + (r + 1) * 33));
}

}  // namespace test_data_mindrecord
}  // namespace ravine

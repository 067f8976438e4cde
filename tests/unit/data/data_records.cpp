#include <zlib.h>

#include "data/records/open_records.h"
#include "data/source.h"
#include "tests/unit/data_help.h"

namespace ravine {
namespace test_data_records {

using test::Folder;

// "NUMBER:BODY" of every record.
std::vector<std::string> records(const std::string& path, const RecordOptions& options = {}) {
  auto reader = open_records(path, options);
  std::vector<std::string> all;
  for (Record r; reader->next(r);) {
    EXPECT_EQ(r.where(), path + ":" + std::to_string(r.number));
    all.push_back(std::to_string(r.number) + ":" + r.body);
  }
  EXPECT_EQ(reader->done(), 1.0);
  return all;
}
using Records = std::vector<std::string>;

TEST(Records, lines_of_text) {
  Folder f;
  const auto a = f.write("a.txt",
                         "\xEF\xBB\xBF"
                         "one\r\n\ntwo\nthree");
  EXPECT_EQ(records(a), (Records{"1:one", "3:two", "4:three"}));
  EXPECT_EQ(records(a, {.whole_text = true}), (Records{"1:one\r\n\ntwo\nthree"}));
  EXPECT_EQ(records(f.write("b.jsonl", "{\"text\":1}\n \n{}\n")), (Records{"1:{\"text\":1}", "3:{}"}));
  EXPECT_USER_ERROR(records(f.write("c.txt", "a\n0123456789"), {.max_record = 5}), "c.txt:2");
}

TEST(Records, json_as_array_or_in_a_row) {
  Folder f;
  const std::string one = R"({"a": "}]\"\\", "b": [1, {"c": []}]})", two = "{\n \"d\": \"中文\"\n}";
  const Records wanted{"2:" + one, "3:" + two};
  EXPECT_EQ(records(f.write("a.json", "[\n" + one + " ,\n" + two + "\n]\n ")), wanted);
  EXPECT_EQ(records(f.write("b.json", "\n" + one + "\n" + two + "\n")), wanted);
  EXPECT_EQ(records(f.write("c.json", "")), Records{});
  EXPECT_EQ(records(f.write("d.json", " [ ] ")), Records{});
  gzFile z = gzopen((f / "e.json.gz").c_str(), "wb");
  gzwrite(z, ("\n" + one).data(), static_cast<unsigned>(one.size() + 1));
  gzclose(z);
  EXPECT_EQ(records(f / "e.json.gz"), (Records{"2:" + one}));
  const std::pair<const char*, const char*> bad[] = {{"[{}", "the array does not end"},
                                                     {"[{},]", "a comma must be followed by an object"},
                                                     {"[{} {}]", "commas between"},
                                                     {"[{}] {}", "nothing may follow the array"},
                                                     {"[1]", "a record must be a JSON object"},
                                                     {"\n\ntext", "a record must be a JSON object"},
                                                     {"{\"a\": \"", "a string does not end"},
                                                     {"{\"a\": [1}", "']' is expected, got '}'"},
                                                     {"{", "an object does not end"},
                                                     {"[", "the array does not end"}};
  for (const auto& [text, rule] : bad) EXPECT_USER_ERROR(records(f.write("bad.json", text)), rule);
  EXPECT_USER_ERROR(records(f.write("bad.json", "{}\n\n{")), "bad.json:3");
  EXPECT_USER_ERROR(records(f.write("deep.json", "{\"a\":" + std::string(2000, '['))), "nested");
  EXPECT_USER_ERROR(records(f.write("long.json", "{\"a\":\"" + std::string(600'000, 'x')), {.max_record = 1000}),
                    "record is too long");
}

// Objects of many sizes around the pieces that are read at once.
TEST(Records, json_across_pieces) {
  Folder f;
  std::string text = "[";
  Records wanted;
  for (int i = 0; i < 200; ++i) {
    const std::string body =
        "{\"text\":\"" + std::string(static_cast<size_t>(i * 97 % 5000), i % 7 == 0 ? '}' : 'x') + "\\\"\"}";
    text += (i ? ",\n" : "") + body;
    wanted.push_back(std::to_string(i + 1) + ":" + body);
  }
  EXPECT_EQ(records(f.write("a.json", text + "]")), wanted);
  const std::string big = "{\"text\":\"" + std::string(1 << 20, '\\') + "\"}";  // an even number of them
  EXPECT_EQ(records(f.write("b.json", big + big)).size(), 2u);
}

TEST(Records, csv_by_the_rules) {
  Folder f;
  EXPECT_EQ(records(f.write("a.csv", "id,text\r\n1,\"a \"\"b\"\",\r\n中\"\r\n\r\n2,\n")),
            (Records{"2:{\"id\":\"1\",\"text\":\"a \\\"b\\\",\\r\\n中\"}", "5:{\"id\":\"2\",\"text\":\"\"}"}));
  EXPECT_EQ(records(f.write("b.csv", "\xEF\xBB\xBFtext\n\"\"\nit is 5\" long"), {.fields = {"text"}}),
            (Records{"2:{\"text\":\"\"}", "3:{\"text\":\"it is 5\\\" long\"}"}));
  EXPECT_EQ(records(f.write("c.csv", "a,text,b\n1,2,3\n"), {.fields = {"text"}}), (Records{"2:{\"text\":\"2\"}"}));
  EXPECT_EQ(records(f.write("d.csv", "text\n")), Records{});
  const std::pair<const char*, const char*> bad[] = {{"", "no header"},
                                                     {"a,a\n1,2", "column 'a' twice"},
                                                     {"a,b\n1", "1 field ("},
                                                     {"a,b\n1,2,3", "more than 2 fields"},
                                                     {"a\n\"x", "a quoted field does not end"},
                                                     {"a\n\"x\"y", "text behind a closing quote"}};
  for (const auto& [text, rule] : bad) EXPECT_USER_ERROR(records(f.write("bad.csv", text)), rule);
  EXPECT_USER_ERROR(records(f.write("bad.csv", "a,b\n\"1\n2\",3\n4")), "bad.csv:4");
  EXPECT_USER_ERROR(records(f.write("e.csv", "Text,b\n1,2"), {.fields = {"text"}}), "data.text_key=Text");
}

TEST(Records, parquet_of_every_kind) {
  const std::string path = RAVINE_SOURCE_DIR "/tests/golden/files/records.parquet";
  if (!test::reads_parquet()) GTEST_SKIP() << "built without Apache Arrow";
  const Json wanted = read_json(RAVINE_SOURCE_DIR "/tests/golden/files/records.json");
  auto reader = open_records(path, {});
  size_t i = 0;
  for (Record r; reader->next(r); ++i) EXPECT_EQ(r.json(), wanted.at(i)) << r.where();
  EXPECT_EQ(i, wanted.size());
  auto two = open_records(path, {.fields = {"text"}});
  Record r;
  ASSERT_TRUE(two->next(r));
  EXPECT_EQ(r.json(), (Json{{"text", wanted[0]["text"]}}));
  EXPECT_USER_ERROR(open_records(path, {.fields = {"nothing"}}), "it has no column 'nothing', only");
  Folder f;
  EXPECT_USER_ERROR(open_records(f.write("bad.parquet", "PAR1 no"), {}), "cannot read parquet file");
  EXPECT_USER_ERROR(open_records(f / "none.parquet", {}), "cannot open file");
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  gzFile z = gzopen((f / "a.parquet.gz").c_str(), "wb");
  gzwrite(z, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(z);
  EXPECT_EQ(records(f / "a.parquet.gz").size(), wanted.size());
  // Damage anywhere is an error or other values, nothing else.
  for (size_t at = 0; at < bytes.size(); at += 37) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    f.write("bad.parquet", bad);
    test::message([&] { records(f / "bad.parquet"); });
  }
}

// A file that is cut, empty or no parquet is an error that names the file, and the row once rows were read.
TEST(Records, broken_parquet_is_named) {
  if (!test::reads_parquet()) GTEST_SKIP() << "built without Apache Arrow";
  std::ifstream in(RAVINE_SOURCE_DIR "/tests/golden/files/records.parquet", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  Folder f;
  for (size_t size : {size_t{0}, size_t{4}, size_t{11}, bytes.size() / 2, bytes.size() - 1})
    EXPECT_USER_ERROR(records(f.write("bad.parquet", bytes.substr(0, size))),
                      "cannot read parquet file (" + (f / "bad.parquet"));
  std::string bad = bytes;
  for (size_t at = 4; at < 900; ++at) bad[at] = '\0';  // the first pages; the footer at the end is whole
  EXPECT_USER_ERROR(records(f.write("bad.parquet", bad)), "cannot read parquet file (" + (f / "bad.parquet") + ":1)");
  EXPECT_USER_ERROR(open_documents(RAVINE_SOURCE_DIR "/tests/golden/files/records.parquet", "nothing"),
                    "it has no column 'nothing', only");
}

TEST(Records, training_reads_them_too) {
  Folder f;
  auto texts = [](const std::string& path, const std::string& key) {
    auto reader = open_documents(path, key);
    std::vector<std::string> all;
    for (std::string text; reader->next(text);) all.push_back(text + "@" + reader->where());
    return all;
  };
  const auto csv = f.write("a.csv", "id,body\n1,one\n2,\n3,\"t\nwo\"\n");
  EXPECT_EQ(texts(csv, "body"), (Records{"one@" + csv + ":2", "t\nwo@" + csv + ":4"}));
  const auto json = f.write("a.json", "[{\"body\":\"x\"},{\"body\":null},\n{\"body\":\"y\"}]");
  EXPECT_EQ(texts(json, "body"), (Records{"x@" + json + ":1", "y@" + json + ":2"}));
  EXPECT_USER_ERROR(texts(json, "text"), "no key 'text'");
}

// Fields and line ends that lie across the pieces of 256 KiB that are read at once.
TEST(Records, csv_across_pieces) {
  Folder f;
  for (int shift = -3; shift <= 3; ++shift) {
    const auto fill = static_cast<size_t>((1 << 18) + shift - 7);  // behind "a,b\r\n" and the quote
    const std::string text = "a,b\r\n\"" + std::string(fill, 'x') + "\"\"y\",\"1\r\n2\"\r\n3,4\r\n";
    EXPECT_EQ(records(f.write("a.csv", text)),
              (Records{"2:{\"a\":\"" + std::string(fill, 'x') + "\\\"y\",\"b\":\"1\\r\\n2\"}", "4:{\"a\":\"3\",\"b\":\"4\"}"}))
        << shift;
    const std::string plain = "a,b\n" + std::string(fill, 'z') + ",w\r\n5,6";
    EXPECT_EQ(records(f.write("b.csv", plain)),
              (Records{"2:{\"a\":\"" + std::string(fill, 'z') + "\",\"b\":\"w\"}", "3:{\"a\":\"5\",\"b\":\"6\"}"}))
        << shift;
  }
  EXPECT_EQ(records(f.write("c.csv", "a\n\r\n\n1\r2\n")), (Records{"4:{\"a\":\"1\\r2\"}"})) << "a lone CR is text";
  EXPECT_EQ(records(f.write("d.csv", "a,\"b \"\"c\"\"\"\n1,\t\n")), (Records{"2:{\"a\":\"1\",\"b \\\"c\\\"\":\"\\t\"}"}));
  EXPECT_EQ(records(f.write("e.csv", "b,a\n1,2\n"), {.fields = {"a", "b"}}), (Records{"2:{\"b\":\"1\",\"a\":\"2\"}"}))
      << "in the order of the table";
  EXPECT_USER_ERROR(records(f.write("g.csv", std::string(65536, ',') + "\n")), "too many columns");
  EXPECT_USER_ERROR(records(f.write("h.csv", "a\n\"" + std::string(700'000, 'x') + "\"\n"), {.max_record = 300'000}),
                    "record is too long");
}

TEST(Records, json_between_objects) {
  Folder f;
  const std::string blank(5000, ' ');
  EXPECT_EQ(records(f.write("a.json",
                            blank + "[" + blank + "{}" + blank + "\n," + blank + "{\"a\": \"\\\\\"}" + blank + "]" + blank)),
            (Records{"1:{}", "2:{\"a\": \"\\\\\"}"}));
  for (int shift = -3; shift <= 3; ++shift) {  // quotes and backslashes at the end of a piece
    const std::string body = "{\"a\":\"" + std::string(static_cast<size_t>((1 << 18) + shift - 8), 'x') + "\\\\\\\"}{\"}";
    EXPECT_EQ(records(f.write("b.json", body + "\n{}")), (Records{"1:" + body, "2:{}"})) << shift;
  }
  EXPECT_EQ(records(f.write("c.json", "{}\t{}\r\n{}")), (Records{"1:{}", "1:{}", "2:{}"}));
  EXPECT_EQ(records(f.write("d.json", "{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}")).size(), 1u);
  EXPECT_USER_ERROR(records(f.write("e.json", "[,{}]")), "a record must be a JSON object");
  EXPECT_USER_ERROR(records(f.write("g.json", "[{}],")), "nothing may follow");
}

TEST(Records, lines_and_how_far_they_are) {
  Folder f;
  EXPECT_EQ(records(f.write("a.txt",
                            "a\r\n\r\nb\rc\n\xEF\xBB\xBF"
                            "d\n")),
            (Records{"1:a", "3:b\rc",
                     "4:\xEF\xBB\xBF"
                     "d"}));
  EXPECT_EQ(records(f.write("b.jsonl", "\xEF\xBB\xBF{}\r\n\t\r\n{}")), (Records{"1:{}\r", "3:{}"}));
  EXPECT_EQ(records(f.write("c.txt", " \n")), (Records{"1: "})) << "blanks are text";
  EXPECT_EQ(records(f.write("d.txt", "\xEF\xBB\xBFx\n"), {.whole_text = true}), (Records{"1:x\n"}));
  EXPECT_USER_ERROR(records(f.write("e.txt", "0123456789"), {.whole_text = true, .max_record = 5}), "e.txt");
  std::string lines;
  for (int i = 0; i < 200'000; ++i) lines += "0123456789\n";
  auto reader = open_records(f.write("g.txt", lines), {});
  double last = 0;
  int64_t n = 0;
  for (Record r; reader->next(r); ++n) {
    EXPECT_GE(reader->done(), last);
    last = reader->done();
    EXPECT_TRUE(n != 1000 || last < 0.9);
  }
  EXPECT_EQ(n, 200'000);
  EXPECT_EQ(last, 1);
  Record r;
  r.file = std::make_shared<const std::string>("f");
  r.number = 7;
  r.body = "a\"b";
  r.plain = true;
  EXPECT_EQ(r.json(), (Json{{"text", "a\"b"}}));
  r.plain = false;
  EXPECT_USER_ERROR(r.json(), "not valid JSON (f:7)");
  r.body = "[1]";
  EXPECT_USER_ERROR(r.json(), "not a JSON object (f:7)");
}

}  // namespace test_data_records
}  // namespace ravine

#include "data/source.h"

#include <zlib.h>

#include <random>

#include "data/source_texts.h"
#include "tests/unit/data_help.h"

namespace ravine {
namespace test_data_source {

using test::Folder;

std::vector<std::string> documents(const std::string& path, const std::string& key = "text") {
  auto reader = open_documents(path, key);
  std::vector<std::string> all;
  for (std::string text; reader->next(text);) all.push_back(text);
  return all;
}

TEST(Source, kinds_by_suffix) {
  EXPECT_EQ(source_kind("a.txt"), SourceKind::text);
  EXPECT_EQ(source_kind("a.jsonl.zst"), SourceKind::jsonl);
  EXPECT_EQ(source_kind("a.safetensors"), SourceKind::fixed);
  EXPECT_EQ(source_kind("a.json.xz"), SourceKind::json);
  EXPECT_EQ(source_kind("a.csv"), SourceKind::csv);
  EXPECT_EQ(source_kind("a.parquet"), SourceKind::parquet);
  EXPECT_USER_ERROR(source_kind("a.bin"), "unknown kind of data (a.bin)");  // without its .idx
  EXPECT_USER_ERROR(source_kind("a.doc"), "unknown kind of data (a.doc)");
}

TEST(Source, files_globs_and_folders) {
  Folder f;
  auto a = f.write("b/one.txt", "1"), b = f.write("b/sub/two.jsonl", "{}"), c = f.write("b/three.txt.gz", "");
  f.write("b/README.md", "no");
  f.write("b/dataset_info.json", "{}");
  f.write("b/.hidden.txt", "no");
  EXPECT_EQ(source_files(f / "b"), (std::vector<std::string>{a, b, c}));
  EXPECT_EQ(source_files(f / "b/*.txt*"), (std::vector<std::string>{a, c}));
  EXPECT_EQ(source_files(a), (std::vector<std::string>{a}));
  EXPECT_USER_ERROR(source_files(f / "none.txt"), "no such data");
  EXPECT_USER_ERROR(source_files(f / "*.none"), "no file has a name of this pattern");
  f.write("i/p.bin", "");
  f.write("i/p.idx", "");
  for (const char* name : {"i/p", "i/p.bin", "i/p.idx", "i/*", "i/p.*"})
    EXPECT_EQ(source_files(f / name), (std::vector<std::string>{f / "i/p"})) << name;
  EXPECT_EQ(source_kind(f / "i/p"), SourceKind::indexed);
  std::filesystem::create_directories(f / "empty");
  EXPECT_USER_ERROR(source_files(f / "empty"), "no data in folder");
}

TEST(Source, small_text_is_one_document) {
  Folder f;
  std::string text = "first\n\nsecond\r\n\r\nthird";
  EXPECT_EQ(documents(f.write("a.txt", text)), std::vector<std::string>{text});
  EXPECT_EQ(documents(f.write("bom.txt", "\xEF\xBB\xBFhi")), std::vector<std::string>{"hi"});
  EXPECT_TRUE(documents(f.write("empty.txt", "")).empty());
}

TEST(Source, large_text_is_cut_at_blank_lines_and_nothing_is_lost) {
  Folder f;
  std::mt19937 random(1);
  std::string text;
  while (text.size() < 700000) {
    for (unsigned n = random() % 400; n > 0; --n) text += static_cast<char>('a' + random() % 26);
    text += random() % 3 ? "\n" : "\n\n";
  }
  std::string all;
  auto docs = documents(f.write("a.txt", text));
  for (const auto& d : docs) all += d;
  EXPECT_EQ(all, text);
  EXPECT_GT(docs.size(), 8u);
  for (size_t i = 0; i + 1 < docs.size(); ++i) {
    EXPECT_GE(docs[i].size(), 65536u);
    EXPECT_LT(docs[i].size(), 70000u);
    EXPECT_TRUE(docs[i].ends_with("\n\n"));
  }
  // No blank line, then no line end at all: cut before 1 MiB, never inside a character.
  std::string lines, one;
  while (lines.size() < 3000000) lines += "0123456789\n";
  while (one.size() < 3000000) one += "\xE5\xB1\xB1";
  for (const auto& t : {lines, one}) {
    std::string joined;
    for (const auto& d : documents(f.write("b.txt", t))) {
      EXPECT_LE(d.size(), 1u << 20);
      EXPECT_GT(d.size(), 800000u);
      joined += d;
    }
    EXPECT_EQ(joined, t);
  }
}

TEST(Source, text_that_is_not_utf8_names_line_and_byte) {
  Folder f;
  auto path = f.write("bad.txt", "good\nbad \xFF here\n");
  EXPECT_USER_ERROR(documents(path), "text is not UTF-8 (" + path + ":2, byte 9 of the text)");
  std::string far(300000, 'x');
  for (size_t i = 99; i < far.size(); i += 100) far[i] = far[i - 1] = '\n';
  far[250050] = '\x80';
  EXPECT_USER_ERROR(documents(f.write("far.txt", far)), fmt::format("far.txt:{}, byte 250050", 1 + 2 * 2500));
}

TEST(Source, jsonl) {
  Folder f;
  EXPECT_EQ(documents(f.write(
                "a.jsonl",
                "{\"text\": \"one\\u00e9\"}\n\n  \r\n{\"x\": [1, {\"text\": 2}], \"text\": \"two\\n\"}\r\n{\"text\": \"\"}")),
            (std::vector<std::string>{"one\xC3\xA9", "two\n"}));
  EXPECT_EQ(documents(f.write("k.jsonl", R"({"body": "b"})"), "body"), std::vector<std::string>{"b"});
  const std::pair<const char*, const char*> wrong[] = {
      {"{\"text\": \"a\"}\n{\"text\": \"b\"", "w.jsonl:2"},
      {"{\"text\": \"a\"} x", "not valid JSON"},
      {"[1]", "not a JSON object"},
      {"{\"txet\": \"a\"}", "no key 'text' ("},
      {"{\"txet\": \"a\"}", "it has txet; did you mean 'txet'; set data.text_key=txet"},
      {"{\"text\": 5}", "'text' is not a string ("},
      {"{\"text\": \"\xFF\"}", "text is not UTF-8 ("},
      {"{\"text\": \"\\ud800\"}", "not valid JSON ("},
  };
  for (const auto& [text, part] : wrong) EXPECT_USER_ERROR(documents(f.write("w.jsonl", text)), part);
  std::string deep = "{\"text\": " + std::string(100000, '[');
  EXPECT_USER_ERROR(documents(f.write("deep.jsonl", deep)), "not valid JSON");
}

TEST(Source, compressed) {
  Folder f;
  gzFile z = gzopen((f / "a.jsonl.gz").c_str(), "wb");
  gzputs(z, "{\"text\": \"packed\"}\n");
  gzclose(z);
  EXPECT_EQ(documents(f / "a.jsonl.gz"), std::vector<std::string>{"packed"});
  std::filesystem::resize_file(f / "a.jsonl.gz", 20);
  EXPECT_USER_ERROR(documents(f / "a.jsonl.gz"), "a.jsonl.gz");
}

TEST(Source, where_a_document_begins) {
  Folder f;
  const std::string block = std::string(70000, 'x') + "\n\n";
  const auto path = f.write("a.txt", "\xEF\xBB\xBF" + block + block + "end\n");
  auto reader = open_documents(path, "text");
  std::vector<std::string> locations;
  for (std::string text; reader->next(text);) locations.push_back(reader->where());
  EXPECT_EQ(locations, (std::vector<std::string>{path + ":1", path + ":3", path + ":5"}));
  // The byte of an error counts from the start of the file, with its mark.
  EXPECT_USER_ERROR(documents(f.write("b.txt",
                                      "\xEF\xBB\xBF"
                                      "a\n\xFF")),
                    (f / "b.txt") + ":2, byte 5 of the text");
  EXPECT_USER_ERROR(documents(f.write("c.txt", "\xEF\xBB\xBF" + block + block + "ab\xFF")),
                    (f / "c.txt") + ":5, byte " + std::to_string(3 + 2 * block.size() + 2));
  // A mark that stands elsewhere is text.
  EXPECT_EQ(documents(f.write("d.txt", "a\xEF\xBB\xBF"))[0], "a\xEF\xBB\xBF");
  // Blank lines of Windows part documents as well.
  const std::string crlf = std::string(66000, 'x') + "\r\n\r\n";
  EXPECT_EQ(documents(f.write("e.txt", crlf + "end")), (std::vector<std::string>{crlf, "end"}));
  EXPECT_EQ(documents(f.write("f.txt", std::string(66000, 'x') + "\nend")).size(), 1u) << "one line end is none";
}

TEST(Source, what_is_no_text_is_refused_with_a_fix) {
  for (auto [name, advice] : std::vector<std::pair<const char*, const char*>>{{"a.docx", "pdftotext or pandoc"},
                                                                              {"a.tar", "unpack it"},
                                                                              {"a.zip.gz", "unpack it"},
                                                                              {"a.tsv", "save the table as .csv"},
                                                                              {"a.npy", "input_ids [N, T]"},
                                                                              {"a.HTML", "copy or link it"},
                                                                              {"a.xyz", "give it the suffix .txt"},
                                                                              {"noSuffix", "give it the suffix .txt"}})
    EXPECT_USER_ERROR(source_kind(name), advice);
  for (auto [name, kind] : std::vector<std::pair<const char*, SourceKind>>{{"A.TXT", SourceKind::text},
                                                                           {"a.JsonL.GZ", SourceKind::jsonl},
                                                                           {"a.Parquet", SourceKind::parquet},
                                                                           {"a.csv.xz", SourceKind::csv},
                                                                           {"a.txt.zst", SourceKind::text}})
    EXPECT_EQ(source_kind(name), kind);
  Folder f;
  for (const char* skipped : {"d/.a.txt", "d/dataset_infos.json", "d/dataset_dict.json", "d/state.json", "d/dataset_info.json"})
    f.write(skipped, "x");
  const auto z = f.write("d/z.txt", ""), a = f.write("d/A.TXT.gz", ""), b = f.write("d/b/m.json", "");
  EXPECT_EQ(source_files(f / "d"), (std::vector<std::string>{a, b, z}));
  EXPECT_USER_ERROR(open_documents(test::write_batches(f / "x.safetensors", {{"input_ids", {1, 2}, {1, 2}}}), "text"),
                    "it holds token ids already");
  EXPECT_USER_ERROR(source_files("a.txt,b.txt"), "data.train=[a.txt,b.txt], or --input a.txt b.txt");
}

TEST(Source, texts_of_records) {
  Folder f;
  EXPECT_EQ(documents(f.write("a.jsonl",
                              "{\"text\": null}\n{\"text\": \"x\"}\n{\"text\": \"\"}\n{\"text\": \"y\", \"text\": \"z\"}\n")),
            (std::vector<std::string>{"x", "z"}));
  auto reader = open_documents(f.write("b.jsonl", "{\"text\": \"x\"}\n\n{\"text\": \"y\"}\n"), "text");
  std::string text;
  ASSERT_TRUE(reader->next(text) && reader->next(text));
  EXPECT_EQ(reader->where(), (f / "b.jsonl") + ":3");
  EXPECT_USER_ERROR(documents(f.write("c.jsonl", "{\"a\": 1, \"b\": 2}\n")),
                    "each record must hold a text, it has a, b; put the text of each record under \"text\"");
  EXPECT_USER_ERROR(documents(f.write("d.jsonl", "{\"text\": \"a\xFF\"}\n")), (f / "d.jsonl") + ":1, byte 11 of the line");
}

// The documents from which a tokenizer learns.
TEST(SourceTexts, are_the_documents_of_all_files_and_nothing_that_is_no_text) {
  Folder f;
  const auto a = f.write("a.jsonl", "{\"t\": \"one\"}\n{\"t\": \"two\"}\n"), b = f.write("b/c.txt", "three\n");
  SourceTexts texts({a, f / "b", f / "*.jsonl"}, "t");
  EXPECT_EQ(texts.files(), (std::vector<std::string>{a, b, a}));
  EXPECT_EQ(texts.name(), a);
  std::vector<std::string> all;
  for (std::string text; texts.next(text);) all.push_back(text);
  EXPECT_EQ(all, (std::vector<std::string>{"one", "two", "three\n", "one", "two"}));

  const std::string ids = test::write_batches(f / "x.safetensors", {{"input_ids", {1, 2}, {1, 2}}});
  SourceTexts mixed({a, ids}, "t");
  std::string text;
  EXPECT_USER_ERROR(mixed.next(text), "not a text file (" + ids);  // before the first is read
  EXPECT_USER_ERROR(SourceTexts({}, "t"), "name at least one text file");
}

}  // namespace test_data_source
}  // namespace ravine

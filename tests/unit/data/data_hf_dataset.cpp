// Local data sets, as load_dataset of Hugging Face's library reads them; tests/golden/hf_datasets.json was recorded
// from it.
#include "data/hf_dataset.h"

#include <filesystem>

#include "data/records/open_records.h"
#include "tests/unit/data_help.h"

namespace ravine {
namespace test_data_hf_dataset {

namespace fs = std::filesystem;
using test::Folder;

std::vector<std::string> texts_of(const HfDatasetRequest& request) {
  std::vector<std::string> out;
  for (const RowsOfFile& rows : rows_of_dataset(request, "--load-dataset")) {
    RecordOptions options;
    options.member = request.field, options.first = rows.first, options.end = rows.end, options.lines = rows.lines;
    const auto reader = open_records(rows.path, options);
    for (Record r; reader->next(r);) out.push_back(r.plain ? r.body : r.json().at("text").get<std::string>());
  }
  return out;
}

HfDatasetRequest request_of(const Json& arguments, std::vector<std::string>* notices = nullptr) {
  std::vector<std::string> own;
  return read_hf_request(arguments.dump(), "--load-dataset", notices ? notices : &own);
}

TEST(HfDataset, RowsAreThoseOfTheLibrary) {
  const Json golden = read_json(RAVINE_SOURCE_DIR "/tests/golden/hf_datasets.json");
  Folder f;
  for (const auto& [tree, files] : golden["trees"].items())
    for (const auto& [file, text] : files.items()) {
      fs::create_directories(fs::path(f / (tree + "/" + file)).parent_path());
      f.write(tree + "/" + file, text.get<std::string>());
    }
  fs::copy(RAVINE_SOURCE_DIR "/tests/golden/hf_datasets", f / ".", fs::copy_options::recursive);
  const bool arrow = test::reads_parquet();
  int compared = 0, refused = 0;
  for (const Json& c : golden["cases"]) {
    const std::string tree = c["tree"].get<std::string>(), what = tree + " " + c["arguments"].dump();
    if (!arrow && (tree == "saved" || tree == "dict" || tree == "cache")) continue;
    Json arguments = c["arguments"];
    arguments["path"] = f / tree;
    if (c["rows"].is_null() || c["rows"].empty()) {
      EXPECT_NE(test::message([&] { texts_of(request_of(arguments)); }), "no error") << what;
      ++refused;
      continue;
    }
    std::vector<std::string> got;
    EXPECT_NO_THROW(got = texts_of(request_of(arguments))) << what;
    EXPECT_EQ(got, c["rows"].get<std::vector<std::string>>()) << what;
    ++compared;
  }
  EXPECT_GE(compared, 28);
  EXPECT_GE(refused, 7);
}

// The page of ModelLink names 20220301.en; the German folder beside it stays out, as does the test file.
TEST(HfDataset, ANameIsTheFolderOfThisName) {
  Folder f;
  for (const char* language : {"en", "de"}) {
    const std::string at = std::string("wikipedia/20220301.") + language;
    fs::create_directories(f / at);
    f.write(at + "/train.jsonl", std::string("{\"text\": \"") + language + "\"}\n");
    f.write(at + "/test.jsonl", "{\"text\": \"held out\"}\n");
  }
  const Json arguments{{"path", f / "wikipedia"}, {"name", "20220301.en"}, {"streaming", true}, {"split", "train"}};
  EXPECT_EQ(texts_of(request_of(arguments)), std::vector<std::string>{"en"});
  EXPECT_USER_ERROR(texts_of(request_of({{"path", f / "wikipedia"}, {"name", "20220301.ed"}})), "20220301.de, 20220301.en");
}

TEST(HfDataset, TheSnapshotOfAHubCacheIsRead) {
  Folder f;
  for (const char* commit : {"aaa", "bbb"}) {
    fs::create_directories(f / (std::string("datasets--x--y/snapshots/") + commit));
    f.write(std::string("datasets--x--y/snapshots/") + commit + "/train.jsonl",
            std::string("{\"text\": \"") + commit + "\"}\n");
  }
  EXPECT_USER_ERROR(texts_of(request_of({{"path", f / "datasets--x--y"}})), "several snapshots");
  fs::create_directories(f / "datasets--x--y/refs");
  f.write("datasets--x--y/refs/main", "bbb");
  EXPECT_EQ(texts_of(request_of({{"path", f / "datasets--x--y"}})), std::vector<std::string>{"bbb"});
}

TEST(HfDataset, ArgumentsAreReadOrRefused) {
  std::vector<std::string> notices;
  // As the page of ModelLink prints it: the quote behind streaming is missing.
  const std::string printed =
      "{\n    \"path\": \"w\",\n    \"name\": \"en\",\n    \"streaming: True,\n    \"split\": \"train\"\n}\n";
  const HfDatasetRequest r = read_hf_request(printed, "--load-dataset", &notices);
  EXPECT_EQ(r.path + r.name + r.split, "wentrain");
  EXPECT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("not valid JSON"), std::string::npos);
  EXPECT_EQ(read_hf_request(R"({"path": "w", "streaming": True, "name": None})", "x", &notices).path, "w");
  EXPECT_USER_ERROR(request_of({{"path", "w"}, {"delimiter", ";"}}), "'delimiter' is not known");
  EXPECT_USER_ERROR(request_of({{"name", "w"}}), "no path");
  EXPECT_USER_ERROR(request_of({{"path", 3}}), "path");
  EXPECT_USER_ERROR(read_hf_request("{\"path\": ", "--load-dataset", &notices), "--load-dataset");
  EXPECT_USER_ERROR(texts_of(request_of({{"path", "w.py"}})), "code of a data set is not run");
  for (const char* bad : {"train[", "train[1]", "train[:1%](up)", "train[:200%]", "", "+"})
    EXPECT_NE(test::message([&] { parse_split(bad, "x"); }), "no error") << bad;
}

// The builder `text` of the library takes the lines of whatever file it is given.
TEST(HfDataset, TheReaderOfTextsTakesLinesOfAnyFile) {
  Folder f;
  f.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  f.write("b.md", "# three\nfour\n");
  f.write("c.txt", "five\n");
  const auto request = [&](const Json& files, const char* split) {
    return request_of({{"path", "text"}, {"data_files", files}, {"split", split}});
  };
  EXPECT_EQ(texts_of(request({f / "a.jsonl", f / "b.md", f / "c.txt"}, "train")),
            (std::vector<std::string>{"{\"text\": \"one\"}", "{\"text\": \"two\"}", "# three", "four", "five"}));
  EXPECT_EQ(texts_of(request({f / "a.jsonl", f / "b.md"}, "train[1:3]")),
            (std::vector<std::string>{"{\"text\": \"two\"}", "# three"}));
  f.write("d.parquet", "PAR1");
  EXPECT_USER_ERROR(texts_of(request({f / "d.parquet"}, "train")), "is no file of text");
  EXPECT_USER_ERROR(texts_of(request_of({{"path", "csv"}, {"data_files", {f / "a.jsonl"}}})), "write \"path\": \"json\"");
}

TEST(HfDataset, PatternsAreThoseOfFolders) {
  for (const auto& [pattern, path, fits] :
       std::vector<std::tuple<const char*, const char*, bool>>{{"*.jsonl", "a.jsonl", true},
                                                               {"*.jsonl", "x/a.jsonl", false},
                                                               {"**/*.jsonl", "x/y/a.jsonl", true},
                                                               {"**/*.jsonl", "a.jsonl", true},
                                                               {"**", "x/y", true},
                                                               {"x/**/a", "x/a", true},
                                                               {"a-[0-9][0-9].txt", "a-07.txt", true},
                                                               {"a-[!0-9].txt", "a-x.txt", true},
                                                               {"a-[!0-9].txt", "a-1.txt", false},
                                                               {"?.txt", "a.txt", true},
                                                               {"?.txt", "/.txt", false},
                                                               {"a[", "a[", true}})
    EXPECT_EQ(fits_pattern(pattern, path), fits) << pattern << " " << path;
}

}  // namespace test_data_hf_dataset
}  // namespace ravine

// The recorded ids and decodings of sentencepiece and of Transformers' Llama classes on a real vocabulary.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace test_tokenizer_shared {

namespace fs = std::filesystem;

std::string shared() {
  const char* folder = std::getenv("RAVINE_SHARED");
  return folder ? folder : "";
}

std::string unhex(const std::string& hex) {
  std::string s;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) s += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return s;
}

struct Shared : testing::Test {
  void SetUp() override {
    if (shared().empty()) GTEST_SKIP() << "RAVINE_SHARED does not name the folder of recorded tokenizers";
    golden = shared() + "/golden/tokenizers/";
    model = shared() + "/data/tokenizers/llama/tokenizer.model";
    Json strings = read_json(golden + "strings.json");
    for (const auto& s : strings["strings"]) texts.push_back(unhex(s["utf8"]));
  }
  std::string golden, model;
  std::vector<std::string> texts;
};

TEST_F(Shared, raw_sentencepiece) {
  auto tokenizer = open_tokenizer(model);
  Json want = read_json(golden + "ids_llama_sentencepiece.json");
  ASSERT_EQ(want["strings"].size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    auto ids = tokenizer->encode(texts[i], true);
    EXPECT_EQ(ids, want["strings"][i]["ids"].get<std::vector<int32_t>>()) << i;
    EXPECT_EQ(tokenizer->decode(ids, false), want["strings"][i]["decode"].get<std::string>()) << i;
  }
  for (const auto& x : want["invalid_utf8"]) {
    auto ids = tokenizer->encode(unhex(x["utf8"]), false);
    EXPECT_EQ(ids, x["ids"].get<std::vector<int32_t>>()) << x["utf8"];
    EXPECT_EQ(tokenizer->decode(ids, false), x["decode"].get<std::string>());
  }
  for (const auto& x : want["decode"]) {
    auto ids = x["ids"].get<std::vector<int32_t>>();
    if (x.contains("text")) {
      EXPECT_EQ(tokenizer->decode(ids, false), x["text"].get<std::string>()) << x.dump();
    } else {
      EXPECT_THROW(tokenizer->decode(ids, false), UserError) << x.dump();
    }
  }
}

TEST_F(Shared, llama_classes) {
  Json want = read_json(golden + "ids_llama_classes.json")["variants"];
  for (bool legacy : {true, false}) {
    fs::path dir = fs::path(testing::TempDir()) / (legacy ? "llama_legacy" : "llama_new");
    fs::create_directories(dir);
    fs::copy_file(model, dir / "tokenizer.model", fs::copy_options::overwrite_existing);
    std::ofstream(dir / "tokenizer_config.json") << (legacy ? R"({"legacy": true})" : R"({"legacy": false})");
    auto tokenizer = open_tokenizer(dir.string());
    const Json& rows = want[legacy ? "slow_legacy_true" : "slow_legacy_false"]["strings"];
    ASSERT_EQ(rows.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      auto ids = tokenizer->encode(texts[i], false);
      EXPECT_EQ(ids, rows[i]["ids"].get<std::vector<int32_t>>()) << i << " " << texts[i];
      EXPECT_EQ(tokenizer->decode(ids, true), rows[i]["decode_skip"].get<std::string>()) << i;
      EXPECT_EQ(tokenizer->decode(ids, false), rows[i]["decode_keep"].get<std::string>()) << i;
      std::vector<int32_t> with_bos = tokenizer->encode(texts[i], true);
      ids.insert(ids.begin(), 1);
      EXPECT_EQ(with_bos, ids);
    }
    fs::remove_all(dir);
  }
}

}  // namespace test_tokenizer_shared
}  // namespace ravine

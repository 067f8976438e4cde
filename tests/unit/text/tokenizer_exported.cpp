// When a tokenizer.json is made of a tokenizer.model, and what the fingerprint of a tokenizer follows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/json.h"
#include "tests/unit/files_temporary.h"
#include "text/tokenizers/open_tokenizer.h"
#include "text/tokenizers/sentencepiece_json.h"

namespace ravine {
namespace test_tokenizer_exported {

namespace fs = std::filesystem;
const std::string kRecorded = std::string(RAVINE_SOURCE_DIR) + "/tests/golden/tokenizer/";

TEST(ExportedTokenizer, IsMadeWhereItIsMissingOnly) {
  TemporaryFolder f;
  EXPECT_TRUE(missing_tokenizer_files(f.path()).empty());
  fs::copy(kRecorded + "llama/tokenizer.model", f / "tokenizer.model");
  EXPECT_EQ(missing_tokenizer_files(f.path()).size(), 2u) << "without settings it is a Llama's";
  const Json settings = Json::parse(missing_tokenizer_files(f.path()).at("tokenizer_config.json"));
  EXPECT_TRUE(settings["bos_token"] == "<s>" && settings["eos_token"] == "</s>" && settings["unk_token"] == "<unk>" &&
              settings["add_bos_token"] == true && settings["add_eos_token"] == false)
      << settings;
  spill(f / "tokenizer_config.json",
        R"({"tokenizer_class": "LlamaTokenizer", "clean_up_tokenization_spaces": true, "model_max_length": 7})");
  const Json kept = Json::parse(missing_tokenizer_files(f.path()).at("tokenizer_config.json"));
  EXPECT_TRUE(kept["clean_up_tokenization_spaces"] == true && kept["model_max_length"] == 7) << kept;
  spill(f / "tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer"})");
  EXPECT_TRUE(missing_tokenizer_files(f.path()).empty()) << "of another kind";
  spill(f / "tokenizer_config.json", R"({"split_special_tokens": true})");
  EXPECT_TRUE(missing_tokenizer_files(f.path()).empty()) << "special strings are text there";
  fs::remove(f / "tokenizer_config.json");
  spill(f / "tokenizer.json", "{}");
  EXPECT_TRUE(missing_tokenizer_files(f.path()).empty()) << "one is there";
}

// As AutoTokenizer: tokenizer.json, unless the settings select SentencePiece. A difference between the two gives a
// warning.
TEST(ExportedTokenizer, WinsOverTheModelNextToIt) {
  TemporaryFolder f;
  const std::string text = "a  b";
  auto opened = [&](const std::string& at, std::string& message) {
    testing::internal::CaptureStderr();
    auto t = open_tokenizer(at);
    message = testing::internal::GetCapturedStderr();
    return t;
  };
  std::string message;
  for (const std::string name : {"alike", "unlike"}) {
    const std::string at = f / name;
    fs::create_directories(at);
    fs::copy(kRecorded + "llama/tokenizer.model", at + "/tokenizer.model");
    const auto model = opened(at, message);
    EXPECT_EQ(message, "");
    for (const auto& [file, made] : missing_tokenizer_files(at)) spill(at + "/" + file, made);
    if (name == "unlike") {
      spill(at + "/tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, " ": 2}, "merges": []}})");
      spill(at + "/tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
    }
    const auto both = opened(at, message);
    if (name == "alike") {
      EXPECT_EQ(message, "");
      EXPECT_EQ(both->encode(text, true), model->encode(text, true));
      continue;
    }
    EXPECT_EQ(both->kind(), "tokenizer.json (BPE)");
    EXPECT_NE(message.find("unlike: tokenizer.json and tokenizer.model disagree"), std::string::npos) << message;
    EXPECT_NE(message.find("\"use_fast\": false"), std::string::npos) << message;
    opened(at, message);
    EXPECT_EQ(message, "") << "once";
    Json config = read_json(at + "/tokenizer_config.json");
    config["use_fast"] = false;
    spill(at + "/tokenizer_config.json", config.dump());
    EXPECT_EQ(opened(at, message)->encode(text, true), model->encode(text, true));
    EXPECT_EQ(message, "");
  }
}

// Classes that take tokenizer.json as it is, or have rules near Llama's, are compared too: by the text alone.
TEST(ExportedTokenizer, IsComparedUnderOtherClasses) {
  TemporaryFolder f;
  for (const std::string name :
       {"PreTrainedTokenizerFast", "TokenizersBackend", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast", "GemmaTokenizerFast"})
    for (const bool alike : {true, false}) {
      const std::string at = f / name + (alike ? "" : "_not");
      fs::create_directories(at);
      fs::copy(kRecorded + "llama/tokenizer.model", at + "/tokenizer.model");
      for (const auto& [file, made] : missing_tokenizer_files(at)) spill(at + "/" + file, made);
      Json config = read_json(at + "/tokenizer_config.json"), json = read_json(at + "/tokenizer.json");
      config["tokenizer_class"] = name;
      spill(at + "/tokenizer_config.json", config.dump());
      json["post_processor"] = nullptr;  // no bos
      if (!alike) json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", " +"}}}, {"content", "▁"}};
      spill(at + "/tokenizer.json", json.dump());
      testing::internal::CaptureStderr();
      open_tokenizer(at);
      const std::string message = testing::internal::GetCapturedStderr();
      EXPECT_EQ(message.find("disagree, \"a  b\" is ") == std::string::npos, alike) << name << message;
      EXPECT_EQ(message.find("the name of the file tokenizer.model takes the other") == std::string::npos, alike) << message;
    }
}

// Tokens of text are cached under the fingerprint of their tokenizer. Every change of ids changes it; another name of
// the folder does not.
TEST(Fingerprint, OfATokenizerFollowsAllThatChangesIds) {
  TemporaryFolder f;
  auto llama = [&](const Json& config, const char* model = "llama") {
    static int number = 0;
    const std::string at = f / fmt::format("l{}", ++number);
    fs::create_directories(at);
    fs::copy(kRecorded + model + "/tokenizer.model", at + "/tokenizer.model");
    spill(at + "/tokenizer_config.json", config.dump());
    return open_tokenizer(at)->fingerprint();
  };
  auto with = [](Json j, const Json& more) { return j.update(more), j; };
  const Json token{{"content", "<new>"}, {"lstrip", false}, {"rstrip", false}, {"single_word", false}, {"special", true}};
  auto added = [&](const Json& more) { return Json{{"added_tokens_decoder", {{"90", with(token, more)}}}}; };
  std::set<uint64_t> seen{llama(Json::object())};
  EXPECT_EQ(llama(Json::object()), *seen.begin()) << "in another folder";
  EXPECT_EQ(llama({{"clean_up_tokenization_spaces", true}, {"model_max_length", 5}}), *seen.begin())
      << "what makes no other ids";
  for (const Json& config :
       {Json{{"legacy", false}}, Json{{"add_bos_token", false}}, Json{{"add_eos_token", true}},
        Json{{"legacy", false}, {"add_prefix_space", false}}, Json{{"split_special_tokens", true}},
        Json{{"pad_token", "<pad>"}}, added(Json::object()), added({{"lstrip", true}}), added({{"rstrip", true}}),
        added({{"single_word", true}}), added({{"special", false}}), added({{"content", "<other>"}})})
    EXPECT_TRUE(seen.insert(llama(config)).second) << config;
  EXPECT_TRUE(seen.insert(llama(Json::object(), "nfkc")).second) << "another model";
  EXPECT_TRUE(seen.insert(open_tokenizer(kRecorded + "llama/tokenizer.model")->fingerprint()).second)
      << "the file alone, without Llama's rules";
  auto json = [&](const Json& config, const char* vocabulary = R"({"a":0,"b":1})", const char* map = "{}") {
    static int number = 0;
    const std::string at = f / fmt::format("j{}", ++number);
    fs::create_directories(at);
    spill(
        at + "/tokenizer.json",
        fmt::format(
            R"({{"version":"1.0","added_tokens":[{{"id":2,"content":"<x>","special":true}}],"model":{{"type":"WordPiece","vocab":{},"unk_token":"a"}}}})",
            vocabulary));
    spill(at + "/tokenizer_config.json", config.dump());
    spill(at + "/special_tokens_map.json", map);
    return open_tokenizer(at)->fingerprint();
  };
  const uint64_t plain = json(Json::object());
  EXPECT_TRUE(seen.insert(plain).second);
  EXPECT_EQ(json({{"model_max_length", 5}}), plain);
  EXPECT_TRUE(seen.insert(json(Json::object(), R"({"b":0,"a":1})")).second) << "other ids of the same words";
  for (const Json& config :
       {Json{{"bos_token", "<x>"}, {"add_bos_token", true}}, Json{{"eos_token", "<x>"}, {"add_eos_token", true}},
        Json{{"split_special_tokens", true}}, added(Json::object()), added({{"lstrip", true}}), added({{"rstrip", true}}),
        added({{"single_word", true}}), added({{"special", false}, {"normalized", false}}),
        added({{"special", false}, {"normalized", true}})})
    EXPECT_TRUE(seen.insert(json(config)).second) << config;
  EXPECT_EQ(json(Json::object(), R"({"a":0,"b":1})", R"({"pad_token": "<new>"})"), json({{"pad_token", "<new>"}}))
      << "whichever file says it";
}

}  // namespace test_tokenizer_exported
}  // namespace ravine

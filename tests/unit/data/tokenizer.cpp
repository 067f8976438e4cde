// Against results of Transformers' LlamaTokenizer and sentencepiece on small models (tools/golden/tokenizer.py), and on
// damaged files.
#include "text/tokenizers/open_tokenizer.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "data/source_texts.h"
#include "files/compressed.h"
#include "text/tokenizers/sentencepiece_model.h"
#include "text/training/trainer.h"

namespace ravine {
namespace test_tokenizer {

namespace fs = std::filesystem;
const std::string kGolden = std::string(RAVINE_SOURCE_DIR) + "/tests/golden/tokenizer/";

struct Folder {
  fs::path path;
  explicit Folder(const std::string& name) : path(fs::path(testing::TempDir()) / ("ravine_tokenizer_" + name)) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path / name, std::ios::binary) << text; }
};

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no UserError";
}

std::vector<int32_t> ids_of(const Json& j) { return j.get<std::vector<int32_t>>(); }

std::string streamed(const Tokenizer& t, const std::vector<int32_t>& ids, bool skip) {
  StreamDecoder decoder(t, skip);
  std::string all;
  for (int32_t id : ids) {
    std::string piece = decoder.next(id);
    EXPECT_EQ(find_invalid_utf8(piece), std::string::npos);
    all += piece;
  }
  return all + decoder.finish();
}

TEST(Tokenizer, as_transformers) {
  Json want = read_json(kGolden + "expected.json");
  int n = 0;
  for (const auto& v : want["variants"]) {
    Folder dir("variant");
    fs::copy_file(kGolden + v["model"].get<std::string>() + "/tokenizer.model", dir.path / "tokenizer.model");
    dir.write("tokenizer_config.json", v["config"].dump());
    auto t = open_tokenizer(dir.path.string());
    bool legacy = v["config"]["legacy"];
    for (size_t i = 0; i < want["texts"].size(); ++i) {
      std::string text = want["texts"][i];
      EXPECT_EQ(t->encode(text, false), ids_of(v["encode"][i]["plain"])) << v["config"].dump() << " '" << text << "'";
      EXPECT_EQ(t->encode(text, true), ids_of(v["encode"][i]["special"])) << v["config"].dump() << " '" << text << "'";
    }
    for (const auto& d : v["decode"]) {
      auto ids = ids_of(d["ids"]);
      EXPECT_EQ(t->decode(ids, false), d["keep"].get<std::string>()) << v["config"].dump() << d["ids"];
      EXPECT_EQ(t->decode(ids, true), d["skip"].get<std::string>()) << v["config"].dump() << d["ids"];
      EXPECT_EQ(streamed(*t, ids, true), d["skip"].get<std::string>());
      if (!legacy) {
        EXPECT_EQ(streamed(*t, ids, false), d["keep"].get<std::string>());
      }
      ++n;
    }
    EXPECT_EQ(t->special().pad, 500);
    EXPECT_EQ(t->id_to_piece(501), "<|tool|>");
  }
  EXPECT_GT(n, 1000);
}

TEST(Tokenizer, raw_model_file) {
  Json want = read_json(kGolden + "expected.json");
  for (const auto& [name, rows] : want["raw"].items()) {
    auto t = open_tokenizer(kGolden + name + "/tokenizer.model");
    EXPECT_EQ(t->special().bos, 1);
    EXPECT_EQ(t->special().pad, std::nullopt);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(t->encode(want["texts"][i].get<std::string>(), true), ids_of(rows[i]["ids"])) << name << i;
      EXPECT_EQ(t->decode(ids_of(rows[i]["ids"]), false), rows[i]["text"].get<std::string>()) << name << i;
    }
  }
}

// The joiner is written here; the library's own Decode is the judge.
// Text in parts has the ids of the whole: words, runs of spaces, other scripts, marks, user symbols, bytes that are no
// text.
TEST(Tokenizer, text_cut_in_pieces_has_the_same_ids) {
  Folder f("words");
  std::string corpus;
  for (int i = 0; i < 300; ++i)
    corpus += fmt::format("the river {} rolls  down to the sea, 山谷里有一条河。 def f(x): return {}\n", i, i * 7);
  f.write("corpus.txt", corpus);
  std::vector<std::string> models{kGolden + "llama/tokenizer.model"};
  for (bool bytes : {true, false}) {
    TokenizerTraining t;
    t.output = (f.path / (bytes ? "bytes" : "unknown")).string();
    t.vocabulary = bytes ? 500 : 120;
    t.byte_fallback = bytes;
    t.character_coverage = bytes ? 0.9995 : 0.98;
    t.symbols = {"river rolls", "<|a b|>", "(x)"};
    SourceTexts text({(f.path / "corpus.txt").string()}, "text");
    train_tokenizer(t, text);
    models.push_back(t.output + "/tokenizer.model");
  }
  const std::vector<std::string> bits{"the",
                                      " the",
                                      "river",
                                      " ",
                                      "  ",
                                      "     ",
                                      "山谷",
                                      "河",
                                      "。",
                                      "é",
                                      "e\xCC\x81",
                                      "\xE2\x96\x81",
                                      "\n",
                                      "\t",
                                      "def f(x)",
                                      "12 345",
                                      "river rolls",
                                      "<|a b|>",
                                      "(x)",
                                      "<s>",
                                      "</s>",
                                      "<0x41>",
                                      "\xFF",
                                      "\xE5\xB1",
                                      "\xF0\x9F\x98\x80",
                                      std::string(1, '\0'),
                                      "aaaaaaaa",
                                      "zqx",
                                      "\xC3",
                                      "\xEF\xBF\xBD",
                                      "\u3000",
                                      "it's"};
  std::mt19937 draw(1);
  for (const std::string& path : models) {
    SCOPED_TRACE(path);
    const SentencePieceModel model = load_sentencepiece(path), bare = load_sentencepiece(path, false);
    ASSERT_TRUE(model.words && bare.words);
    for (int i = 0; i < 3000; ++i) {
      std::string text;
      for (size_t n = draw() % (i % 100 == 0 ? 400 : 12); n > 0; --n) text += bits[draw() % bits.size()];
      for (const SentencePieceModel* m : {&model, &bare}) {
        std::vector<int32_t> whole;
        m->encode_whole(text, whole);
        ASSERT_EQ(m->encode(text), whole) << text;
      }
    }
    std::vector<int32_t> whole;
    model.encode_whole(corpus, whole);
    EXPECT_EQ(model.encode(corpus), whole);
  }
  EXPECT_FALSE(load_sentencepiece(kGolden + "nfkc/tokenizer.model").words) << "a model that changes characters is left whole";
}

TEST(Tokenizer, decodes_as_the_library) {
  std::mt19937 random(3);
  for (const char* name : {"llama", "nfkc"}) {
    auto model = load_sentencepiece(kGolden + name + "/tokenizer.model");
    auto t = open_tokenizer(kGolden + name + "/tokenizer.model");
    for (int i = 0; i < 3000; ++i) {
      std::vector<int32_t> ids(random() % 12);
      for (auto& id : ids) id = static_cast<int32_t>(random() % (random() % 2 ? model.pieces.size() : 259));
      int mark = model.processor->PieceToId(kSpaceMark.data());  // leading space marks have rules of their own
      ids.insert(ids.begin(), random() % 4, mark);
      std::string want;
      ASSERT_TRUE(model.processor->Decode(ids, &want).ok());
      EXPECT_EQ(t->decode(ids, false), want);
      EXPECT_EQ(streamed(*t, ids, false), want);
    }
  }
}

TEST(Tokenizer, streams_whole_characters) {
  auto t = open_tokenizer(kGolden + "llama/tokenizer.model");
  auto ids = t->encode("\xF0\x9F\x98\x80!", false);  // four byte pieces
  StreamDecoder decoder(*t, true);
  std::vector<std::string> pieces;
  for (int32_t id : ids) pieces.push_back(decoder.next(id));
  EXPECT_EQ(decoder.finish(), "");
  std::erase(pieces, "");
  EXPECT_EQ(pieces, (std::vector<std::string>{"\xF0\x9F\x98\x80", "!"}));
}

TEST(Tokenizer, ids_outside_are_refused) {
  auto t = open_tokenizer(kGolden + "llama/tokenizer.model");
  for (int32_t id : {-1, static_cast<int32_t>(t->size())}) {
    std::vector<int32_t> ids{id};
    EXPECT_NE(message([&] { t->decode(ids, false); }).find("outside the vocabulary"), std::string::npos);
    EXPECT_NE(message([&] { t->id_to_piece(id); }).find("outside the vocabulary"), std::string::npos);
  }
}

TEST(Tokenizer, folders_without_a_tokenizer_are_refused_by_name) {
  Folder dir("refused");
  EXPECT_NE(message([&] { open_tokenizer(dir.path.string()); }).find("it must hold tokenizer.model"), std::string::npos);
  dir.write("tokenizer.json", "{}");
  EXPECT_NE(message([&] { open_tokenizer(dir.path.string()); }).find("tokenizer.json): it must have the field 'model'"),
            std::string::npos);
  EXPECT_NE(message([&] { open_tokenizer((dir.path / "tokenizer.json").string()); }).find("'model'"), std::string::npos);
  EXPECT_NE(message([&] { open_tokenizer((dir.path / "none.model").string()); }).find("no such tokenizer"), std::string::npos);
}

TEST(Tokenizer, wrong_settings_name_file_and_key) {
  Folder dir("settings");
  fs::copy_file(kGolden + "llama/tokenizer.model", dir.path / "tokenizer.model");
  const std::pair<const char*, const char*> cases[] = {
      {R"({"legacy": 1})", "tokenizer_config.json: legacy): it must be true or false"},
      {R"({"added_tokens_decoder": {"x": "a"}})", "added_tokens_decoder.x): the key must be a token id"},
      {R"({"added_tokens_decoder": {"-4": "a"}})", "added_tokens_decoder.-4): token ids are 0 to"},
      {R"({"bos_token": {"content": ""}})", "bos_token): a token must not be empty"},
      {R"({"eos_token": 3})", "eos_token): a token is a string or an object"},
      {R"({"tokenizer_class": "T5Tokenizer"})", "'T5Tokenizer' is not one of"},
      {R"([1])", "it must be a JSON object"},
  };
  for (const auto& [config, want] : cases) {
    dir.write("tokenizer_config.json", config);
    EXPECT_NE(message([&] { open_tokenizer(dir.path.string()); }).find(want), std::string::npos)
        << config << ": " << message([&] { open_tokenizer(dir.path.string()); });
  }
}

// Whatever a file holds: a tokenizer or one clear error, and never a crash when it is used.
TEST(Tokenizer, damaged_models) {
  for (const char* name : {"llama", "nfkc"}) {
    std::string good = read_whole(kGolden + name + "/tokenizer.model", 1 << 24);
    auto attempt = [&](std::string bytes) {
      try {
        auto m = parse_sentencepiece(std::move(bytes), "damaged.model");
        for (const char* text : {"the river", "\xEF\xBC\xA1 \xE3\x88\xB1 \xEF\xBD\x9E a\xCC\x81", "\xFF\xC3"}) m.encode(text);
        return 1;
      } catch (const UserError& e) {
        EXPECT_NE(std::string(e.what()).find("damaged.model"), std::string::npos);
        return 0;
      }
    };
    EXPECT_EQ(attempt(good), 1);
    EXPECT_EQ(attempt(""), 0);
    EXPECT_EQ(attempt("this is not a model"), 0);
    for (size_t n : {size_t{1}, good.size() / 3, good.size() / 2, good.size() - 1})
      EXPECT_EQ(attempt(good.substr(0, n)), 0) << n;
    std::mt19937 random(5);
    int refused = 0;
    for (int i = 0; i < 400; ++i) {
      std::string bad = good;
      for (unsigned k = 0; k <= random() % 4; ++k) bad[random() % bad.size()] = static_cast<char>(random());
      refused += !attempt(bad);
    }
    EXPECT_GT(refused, 20);
  }
}

}  // namespace test_tokenizer
}  // namespace ravine

// tokenizer.json against what PyPI's tokenizers recorded for small tokenizers of every component
// (tools/golden/make_tokenizers.py).
#include <gtest/gtest.h>

#include <random>

#include "base/json.h"
#include "base/text.h"
#include "tests/unit/text_help.h"
#include "text/tokenizers/json_tokenizer.h"
#include "text/tokenizers/open_tokenizer.h"
#include "text/tokenizers/regex.h"
#include "text/tokenizers/split_patterns.h"

namespace ravine {
namespace test_tokenizer_json {

using test::Folder;
const std::string kGolden = std::string(RAVINE_SOURCE_DIR) + "/tests/golden/";

std::unique_ptr<Tokenizer> tokenizer_of(const Json& json) {
  return make_tokenizer(read_tokenizer_json(json.dump(), "golden.json"));
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

TEST(TokenizerJson, every_component_as_recorded) {
  Json want = read_json(kGolden + "tokenizers.json");
  size_t rows = 0;
  for (const auto& row : want["rows"]) {
    SCOPED_TRACE(row["name"].get<std::string>());
    auto t = tokenizer_of(row["tokenizer"]);
    for (size_t i = 0; i < want["texts"].size(); ++i) {
      std::string text = want["texts"][i];
      EXPECT_EQ(t->encode(text, false), ids_of(row["encode"][i][0])) << want["texts"][i].dump();
      EXPECT_EQ(t->encode(text, true), ids_of(row["encode"][i][1])) << want["texts"][i].dump();
    }
    for (const auto& d : row["decode"]) {
      auto ids = ids_of(d[0]);
      EXPECT_EQ(t->decode(ids, false), d[1].get<std::string>()) << d[0].dump();
      EXPECT_EQ(t->decode(ids, true), d[2].get<std::string>()) << d[0].dump();
      EXPECT_EQ(streamed(*t, ids, false), d[1].get<std::string>()) << d[0].dump();
    }
    ++rows;
  }
  EXPECT_GE(rows, 29u);
}

// As in PyPI's tokenizers 0.23: letters, digits and underscores on either side make it a part of a longer word; other
// characters do not.
TEST(TokenizerJson, single_words_end_where_words_end) {
  Json j = read_json(kGolden + "tokenizers.json")["rows"][0]["tokenizer"];
  int32_t whole = -1;
  for (const Json& t : j["added_tokens"])
    if (t["content"] == "whole" && t["single_word"] == true) whole = t["id"];
  ASSERT_GE(whole, 0);
  const auto t = tokenizer_of(j);
  auto found = [&](const std::string& text) {
    const auto ids = t->encode(text, false);
    return std::count(ids.begin(), ids.end(), whole);
  };
  for (const char* text :
       {"whole", "a whole", "whole.", "(whole)", "whole-x", "whole\n", "\xE5\xB1\xB1 whole", "whole,whole", "a whole b"})
    EXPECT_GE(found(text), 1) << text;
  EXPECT_EQ(found("whole,whole"), 2);
  for (const char* text : {"wholes", "wholesome x", "whole_", "whole1", "awhole", "_whole", "1whole", "whole\xC3\xA9",
                           "\xC3\xA9whole", "whole\xE5\xB1\xB1", "wholewhole"})
    EXPECT_EQ(found(text), 0) << text;
}

// tools/golden/make_tokenizer_corners.py: parts in any order, and rules where two ways are equally good.
TEST(TokenizerJson, parts_in_any_order_as_recorded) {
  const Json rows = read_json(kGolden + "tokenizer_corners.json");
  ASSERT_GE(rows.size(), 100u);
  for (size_t i = 0; i < rows.size(); ++i) {
    Json parts = rows[i][0];
    parts["model"].erase("vocab"), parts["model"].erase("merges"), parts.erase("added_tokens");
    SCOPED_TRACE(fmt::format("row {} {}", i, parts.dump()));
    const auto t = tokenizer_of(rows[i][0]);
    for (const Json& e : rows[i][1]) {
      EXPECT_EQ(t->encode(e[0].get<std::string>(), false), ids_of(e[1])) << e[0].dump();
      EXPECT_EQ(t->encode(e[0].get<std::string>(), true), ids_of(e[2])) << e[0].dump();
    }
    for (const Json& d : rows[i][2]) {
      const auto ids = ids_of(d[0]);
      EXPECT_EQ(Json(t->decode(ids, false)), d[1]) << d[0].dump();
      EXPECT_EQ(Json(t->decode(ids, true)), d[2]) << d[0].dump();
      EXPECT_EQ(Json(streamed(*t, ids, false)), d[1]) << d[0].dump();
    }
    if (HasFailure()) break;
  }
}

// tools/golden/post_processors.py; chains on which the library panics are refused.
TEST(TokenizerJson, chains_of_post_processors_as_recorded) {
  const Json rows = read_json(kGolden + "post_processors.json");
  ASSERT_GT(rows.size(), 60u);
  for (const Json& row : rows) {
    Json j = Json::parse(
        R"({"version":"1.0","added_tokens":[],"pre_tokenizer":{"type":"Whitespace"},"model":{"type":"WordPiece","vocab":{"a":0,"b":1,"text":2,"unknown":3},"unk_token":"unknown"}})");
    j["post_processor"] = row["post_processor"];
    SCOPED_TRACE(row.dump());
    if (row["ids"].is_null()) {
      EXPECT_USER_ERROR(tokenizer_of(j), "a template cannot follow one that makes");
      continue;
    }
    EXPECT_EQ(tokenizer_of(j)->encode("text", true), ids_of(row["ids"]));
    EXPECT_EQ(tokenizer_of(j)->encode("text", false), std::vector<int32_t>{2});
  }
}

// The scanners do what their regular expressions do, on every code point and on random text.
TEST(TokenizerJson, scanners_equal_pcre2) {
  auto table = char_table();
  RegexScratch scratch;
  std::mt19937 random(3);
  const char32_t odd[] = {U'\'',  U's',   U'S', U't',  U'r',  U'E',  U'e',    U'v',   U'l',   U'L',   U'm', U'd',
                          0x17f,  U' ',   U' ', U'\n', U'\r', U'\t', U'a',    U'1',   U'9',   U'.',   U'-', 0xa0,
                          0x3000, 0x4e2d, 0xe9, 0x301, 0x660, 0xbd,  0x1f600, 0x200b, 0x2028, 0x180e, 0x85, 0x1c};
  for (auto pattern : {SplitPattern::gpt2, SplitPattern::llama3, SplitPattern::qwen2}) {
    Regex regex(pattern_text(pattern), "pattern");
    auto compare = [&](const std::string& text) {
      std::vector<std::pair<size_t, size_t>> want, got;
      each_match(regex, text, scratch, [&](size_t b, size_t e) { want.emplace_back(b, e); });
      scan_words(pattern, *table, text,
                 [&](std::string_view w) { got.emplace_back(w.data() - text.data(), w.data() - text.data() + w.size()); });
      ASSERT_EQ(got, want) << pattern_text(pattern) << " " << Json(text).dump();
    };
    std::string text;
    for (char32_t c = 1; c < 0x110000; ++c) {
      if (c >= 0xd800 && c <= 0xdfff) continue;
      append_utf8(text, c);
      if (c % 4096 == 0) compare(std::exchange(text, ""));
    }
    for (int i = 0; i < 4000; ++i) {
      text.clear();
      for (unsigned k = 0; k <= random() % 40; ++k) append_utf8(text, odd[random() % std::size(odd)]);
      compare(text);
    }
  }
}

Json base_json() {
  return Json::parse(
      R"({"version":"1.0","added_tokens":[],"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"aba":3,"aa":4,"aaaa":5},
      "merges":[["a","b"],["a","a"],["aa","aa"],["ab","a"]]}})");
}

TEST(TokenizerJson, long_words_as_short_ones) {
  auto t = tokenizer_of(base_json());
  for (size_t n : {63, 64, 65, 66, 1000, 200000}) {
    std::string word(n, 'a');
    auto ids = t->encode(word, false);
    std::string back;
    for (int32_t id : ids) back += t->id_to_piece(id);
    EXPECT_EQ(back, word);
    EXPECT_EQ(ids.size(), n / 4 + (n % 4 >= 2) + n % 2) << n;  // fours, a two, a one: the leftmost pairs join first
  }
  // Random words around the border between the two ways. The long way checks the short way on the same symbols, with a
  // word that a symbol without joins splits in two.
  std::mt19937 random(7);
  Json j = base_json();
  j["model"]["vocab"]["z"] = 6;
  auto with_z = tokenizer_of(j);
  for (int i = 0; i < 300; ++i) {
    std::string word;
    for (unsigned k = 0; k < 2 + random() % 60; ++k) word += random() % 3 ? 'a' : 'b';
    auto shortly = with_z->encode(word, false);
    auto twice = with_z->encode(word + std::string(80, 'z') + word, false);
    ASSERT_EQ(twice.size(), 2 * shortly.size() + 80);
    EXPECT_TRUE(std::equal(shortly.begin(), shortly.end(), twice.begin()));
    EXPECT_TRUE(std::equal(shortly.begin(), shortly.end(), twice.end() - static_cast<ptrdiff_t>(shortly.size())));
  }
}

TEST(TokenizerJson, bad_text_becomes_the_replacement_character) {
  Json want = read_json(kGolden + "tokenizers.json");
  auto t = tokenizer_of(want["rows"][0]["tokenizer"]);
  const std::pair<const char*, const char*> cases[] = {
      // as bytes.decode("utf-8", "replace") has it
      {"\xff", "\xEF\xBF\xBD"},
      {"a\xc3", "a\xEF\xBF\xBD"},
      {"\xc3(", "\xEF\xBF\xBD("},
      {"\xe4\xbd", "\xEF\xBF\xBD"},
      {"\xf0\x9f\x98", "\xEF\xBF\xBD"},
      {"\xf0\x9f\x98\xf0\x9f\x98\x80", "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
      {"\xed\xa0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xc0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xf4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}};
  for (const auto& [bad, good] : cases) EXPECT_EQ(t->encode(bad, false), t->encode(good, false)) << good;
}

TEST(TokenizerJson, what_is_not_known_is_refused_by_name) {
  auto message = [](const std::function<void(Json&)>& change) {
    Json j = base_json();
    change(j);
    try {
      tokenizer_of(j);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("no UserError");
  };
  auto has = [&](const std::function<void(Json&)>& change, const char* part) {
    EXPECT_NE(message(change).find(part), std::string::npos) << message(change) << " lacks " << part;
  };
  EXPECT_EQ(message([](Json&) {}), "no UserError");
  has([](Json& j) { j["normalizer"] = {{"type", "Magic"}}; }, "golden.json: normalizer): the normalizer 'Magic' is not known");
  has(
      [](Json& j) {
        j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Nope"}}}}};
      },
      "pre_tokenizer.pretokenizers[0]): the pre-tokenizer 'Nope' is not known");
  // Parts of the Hugging Face library that no known model has.
  has([](Json& j) { j["normalizer"] = {{"type", "Nmt"}}; }, "golden.json: normalizer): the normalizer 'Nmt' is not known");
  has([](Json& j) { j["decoder"] = {{"type", "CTC"}}; }, "golden.json: decoder): the decoder 'CTC' is not known");
  has([](Json& j) { j["model"] = {{"type", "WordLevel"}, {"vocab", {{"a", 0}}}}; }, "the model 'WordLevel' is not known");
  has([](Json& j) { j["model"] = {{"vocab", {{"a", 0}}}}; }, "the model 'WordLevel' is not known");
  has([](Json& j) { j["decoder"] = {{"type", "Odd"}}; }, "the decoder 'Odd' is not known");
  has([](Json& j) { j["post_processor"] = {{"type", "Odd"}}; }, "the post-processor 'Odd' is not known");
  has([](Json& j) { j["model"]["type"] = "Neural"; }, "the model 'Neural' is not known");
  has([](Json& j) { j["model"]["dropout"] = 0.1; }, "dropout makes other ids each time");
  has([](Json& j) { j["model"]["novel"] = 1; }, "model.novel): this field is not known");
  has([](Json& j) { j["extra"] = 1; }, "this field is not known");
  has([](Json& j) { j["version"] = "2.0"; }, "only version 1.0");
  has([](Json& j) { j["model"]["merges"].push_back({"a", "q"}); }, "merge 4 needs 'q'");
  has([](Json& j) { j["model"]["vocab"]["c"] = -1; }, "it must be an integer from 0");
  has([](Json& j) { j["model"].erase("vocab"); }, "it must have the field 'vocab'");
  has([](Json& j) { j["added_tokens"] = {{{"id", 9}}}; }, "it must have the field 'content'");
  auto split = [](Json& j, const char* regex) {
    j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  };
  has([&](Json& j) { split(j, "("); }, "wrong regular expression (golden.json: pre_tokenizer.pattern.Regex)");
  const std::string pattern = std::string(5000, 'a') + "(", shown = "'" + std::string(200, 'a') + "..': ";
  has([&](Json& j) { split(j, pattern.c_str()); }, shown.c_str());
  has([&](Json& j) { split(j, "[a&&b]"); }, "&& in a class");
  has([&](Json& j) { split(j, "\\p{Klingon}"); }, "the property 'Klingon'");
  has(
      [](Json& j) {
        j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}};
      },
      "damaged table of normalisation rules");
}

TEST(TokenizerJson, syntax_of_oniguruma) {
  RegexScratch scratch;
  auto parts = [&](const char* pattern, const std::string& text) {
    std::vector<std::string> all;
    Regex regex(pattern, "pattern");
    each_match(regex, text, scratch, [&](size_t b, size_t e) { all.push_back(text.substr(b, e - b)); });
    return all;
  };
  using Parts = std::vector<std::string>;  // as tokenizers' Split finds them
  EXPECT_EQ(parts("^a", "a\nab"), (Parts{"a", "a"}));
  EXPECT_EQ(parts("a$", "a\nba"), (Parts{"a", "a"}));
  EXPECT_EQ(parts("(?m)a.b", "xa\nb"), (Parts{"a\nb"}));
  EXPECT_EQ(parts("\\h+", "ab 1g"), (Parts{"ab", "1"}));
  EXPECT_EQ(parts("\\p{N}{1,3}+", "12345678"), (Parts{"12345678"}));
  EXPECT_EQ(parts("\\p{N}{1,3}", "12345678"), (Parts{"123", "456", "78"}));
  EXPECT_EQ(parts("\\u0061", "ba"), (Parts{"a"}));
  EXPECT_EQ(parts("x*", "abxxc"), (Parts{"", "", "xx", ""}));
  EXPECT_EQ(parts("\\p{^L}+", "ab12"), (Parts{"12"}));
  EXPECT_EQ(parts("[^\\s\\p{L}]+", "a\xE1\xA0\x8E b"), (Parts{"\xE1\xA0\x8E"}));  // U+180E is no white space
  EXPECT_EQ(parts("\\p{L}+", "\xF0\xB2\x8E\xAF-"), (Parts{"\xF0\xB2\x8E\xAF"}));  // U+323AF, a letter since Unicode 15
}

// A search that remembers a place for each repetition needs more than the stack of compiled searches.
TEST(TokenizerJson, a_search_deeper_than_the_stack) {
  RegexScratch scratch;
  const Regex regex("(?:a|b)+c|a+", "pattern");
  const std::string text(1 << 20, 'a');
  std::vector<std::pair<size_t, size_t>> parts;
  each_match(regex, text + "c" + text, scratch, [&](size_t b, size_t e) { parts.emplace_back(b, e); });
  EXPECT_EQ(parts, (std::vector<std::pair<size_t, size_t>>{{0, text.size() + 1}, {text.size() + 1, 2 * text.size() + 1}}));
}

TEST(TokenizerJson, folders) {
  Folder f;
  Json want = read_json(kGolden + "tokenizers.json");
  f.write("a/tokenizer.json", want["rows"][0]["tokenizer"].dump());
  f.write("a/tokenizer_config.json",
          R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "<new>", "add_bos_token": true})");
  auto t = open_tokenizer(f / "a");
  auto plain = open_tokenizer(f / "a/tokenizer.json");
  EXPECT_EQ(t->id_to_piece(*t->special().bos), "<s>");
  EXPECT_EQ(t->id_to_piece(*t->special().eos), "</s>");
  EXPECT_EQ(*t->special().pad, plain->size());  // a new token takes the next id
  EXPECT_EQ(t->size(), plain->size() + 1);
  auto ids = t->encode("the<new>", true);
  EXPECT_EQ(ids.front(), *t->special().bos);
  EXPECT_EQ(ids.back(), *t->special().pad);
  EXPECT_NE(t->fingerprint(), plain->fingerprint());
  EXPECT_EQ(plain->special().bos, std::nullopt);
  // The older files of the same tokenizer.
  const Json& model = want["rows"][0]["tokenizer"]["model"];
  std::string merges = "#version: 0.2\n";
  for (const auto& m : model["merges"]) merges += m[0].get<std::string>() + " " + m[1].get<std::string>() + "\n";
  f.write("b/vocab.json", model["vocab"].dump());
  f.write("b/merges.txt", merges);
  auto old = open_tokenizer(f / "b");
  for (const std::string text : {"the river", "  don't 123\n", "\xE5\xB1\xB1"})
    EXPECT_EQ(old->encode(text, false), plain->encode(text, false));
  f.write("c/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nri\n##ver\n.\n");
  auto bert = open_tokenizer(f / "c");
  EXPECT_EQ(bert->encode("The river.", true), (std::vector<int32_t>{2, 4, 5, 6, 7, 3}));
  EXPECT_EQ(bert->decode(bert->encode("The river.", true), true), "the river.");
  f.write("d/vocab.json", "{}");
  EXPECT_USER_ERROR(open_tokenizer(f / "d"), "no tokenizer in folder");
}

// Settings of a folder take priority over its tokenizer.json: the map before the config, ids of new tokens after the
// vocabulary, tokens around a text.
TEST(TokenizerJson, settings_of_a_folder) {
  Folder f;
  Json j = base_json();  // a b ab aba aa aaaa
  j["added_tokens"] = {{{"id", 6}, {"content", "<x>"}, {"special", true}}, {{"id", 7}, {"content", "<y>"}, {"special", false}}};
  f.write("t/tokenizer.json", j.dump());
  auto with = [&](const char* config, const char* map = "{}") {
    f.write("t/tokenizer_config.json", config);
    f.write("t/special_tokens_map.json", map);
    return open_tokenizer(f / "t");
  };
  using Ids = std::vector<int32_t>;
  auto t = with(R"({"bos_token": "<y>", "unk_token": "<u>", "eos_token": "<y>"})",
                R"({"bos_token": "<x>", "eos_token": {"content": "<e>"}, "unk_token": null, "pad_token": "ab"})");
  EXPECT_EQ(t->special().bos, 6);
  EXPECT_EQ(t->special().eos, 8) << "new, behind all others";
  EXPECT_EQ(t->special().pad, 2) << "the piece it is";
  EXPECT_EQ(t->special().unk, std::nullopt) << "null is none, whatever the config says";
  EXPECT_EQ(t->size(), 9);
  EXPECT_EQ(t->encode("a<e>ab", false), (Ids{0, 8, 2}));
  EXPECT_EQ(t->decode(Ids{0, 8, 2}, true), "a") << "named ones are special";
  t = with(R"({"bos_token": "<x>", "eos_token": "<y>", "add_bos_token": true})");
  EXPECT_EQ(t->encode("ab", true), (Ids{6, 2}));
  EXPECT_EQ(t->encode("ab", false), Ids{2});
  EXPECT_EQ(with(R"({"bos_token": "<x>", "eos_token": "<y>", "add_eos_token": true})")->encode("ab", true), (Ids{2, 7}));
  EXPECT_EQ(
      with(R"({"bos_token": "<x>", "eos_token": "<y>", "add_bos_token": true, "add_eos_token": true})")->encode("ab", true),
      (Ids{6, 2, 7}));
  EXPECT_EQ(with(R"({"bos_token": "<x>"})")->encode("ab", true), Ids{2});
  t = with(R"({"bos_token": "<x>", "added_tokens_decoder": {}})", R"({"bos_token": "<y>", "pad_token": "ab"})");
  EXPECT_EQ(t->special().bos, 6) << "beside added_tokens_decoder the map is not read";
  EXPECT_EQ(t->special().pad, std::nullopt);
  t = with(R"({"additional_special_tokens": ["<r>"], "split_special_tokens": false})",
           R"({"additional_special_tokens": ["<p>", {"content": "<q>", "lstrip": true}]})");
  EXPECT_EQ(t->size(), 10);
  EXPECT_EQ(t->encode("a <q><p>", false), (Ids{0, 9, 8}));
  EXPECT_EQ(with("{}", R"({"additional_special_tokens": ["<r>"]})")->encode("<r>", false), Ids{8});
  EXPECT_EQ(with(R"({"bos_token": "<x>", "split_special_tokens": true})")->encode("a<x>b", false), (Ids{2}))
      << "as text, of which the letters are known";
  t = with(
      R"({"added_tokens_decoder": {"9": {"content": "<n>"}, "8": {"content": "<m>", "special": true, "rstrip": true}, "6": {"content": "<x>", "special": true}}})");
  EXPECT_EQ(t->encode("<m> a<n>", false), (Ids{8, 0, 9})) << "in the order of their ids";
  EXPECT_EQ(t->decode(Ids{8, 0, 9}, true), "a <n>");
  // The post-processor of the file stays unless the config changes it.
  j["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"<y>", 7}}, {"cls", {"<x>", 6}}};
  f.write("t/tokenizer.json", j.dump());
  EXPECT_EQ(with("{}")->encode("ab", true), (Ids{6, 2, 7}));
  EXPECT_EQ(with(R"({"bos_token": "<x>", "add_bos_token": false})")->encode("ab", true), Ids{2});
  for (auto [config, part] : std::vector<std::pair<const char*, const char*>>{
           {R"({"added_tokens_decoder": {"x": {"content": "<n>"}}})", "added_tokens_decoder.x): the key must be a token id"},
           {R"({"added_tokens_decoder": []})", "it must be an object"},
           {R"({"bos_token": 3})", "bos_token): a token is a string"},
           {R"({"bos_token": ""})", "a token must not be empty"},
           {R"({"add_bos_token": 1})", "it must be true or false"},
           {R"({"additional_special_tokens": "x"})", "it must be a list of tokens"}})
    EXPECT_USER_ERROR(with(config), part);
}

TEST(TokenizerJson, older_files_by_their_class) {
  Folder f;
  using Ids = std::vector<int32_t>;
  f.write("w/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nThe\ncafe\ncaf\xC3\xA9\n\xE5\xB1\xB1\n##\xE5\xB1\xB1\na \n");
  auto bert = [&](const char* config) {
    f.write("w/tokenizer_config.json", config);
    return open_tokenizer(f / "w");
  };
  EXPECT_EQ(bert("{}")->encode("The Caf\xC3\xA9 \xE5\xB1\xB1\xE5\xB1\xB1", false), (Ids{4, 6, 8, 8}));
  EXPECT_EQ(bert(R"({"do_lower_case": false})")->encode("The caf\xC3\xA9", false), (Ids{5, 7})) << "accents stay with the case";
  EXPECT_EQ(bert(R"({"strip_accents": false})")->encode("The caf\xC3\xA9", false), (Ids{4, 7}));
  EXPECT_EQ(bert(R"({"do_lower_case": false, "strip_accents": true})")->encode("The caf\xC3\xA9", false), (Ids{5, 6}));
  EXPECT_EQ(bert(R"({"tokenize_chinese_chars": false})")->encode("\xE5\xB1\xB1\xE5\xB1\xB1", false), (Ids{8, 9}));
  EXPECT_EQ(bert(R"({"tokenizer_class": "BertTokenizerFast"})")->encode("a zz", true), (Ids{2, 10, 1, 3}))
      << "lines lose the blanks behind them";
  EXPECT_USER_ERROR(bert(R"({"tokenizer_class": "T5Tokenizer"})"), "'T5Tokenizer' is not one of BertTokenizer");
  EXPECT_USER_ERROR(bert(R"({"cls_token": "[X]"})"), "[X]): this token must be in the vocabulary");
  const Json want = read_json(kGolden + "tokenizers.json");
  const Json& model = want["rows"][0]["tokenizer"]["model"];
  std::string merges;
  for (const auto& m : model["merges"]) merges += m[0].get<std::string>() + " " + m[1].get<std::string>() + "\r\n";
  f.write("b/vocab.json", model["vocab"].dump());
  f.write("b/merges.txt", merges);
  auto pair = [&](const char* config) {
    f.write("b/tokenizer_config.json", config);
    return open_tokenizer(f / "b");
  };
  auto of_row = [&](size_t row, const std::string& text) {
    return tokenizer_of(want["rows"][row]["tokenizer"])->encode(text, false);
  };
  for (const std::string text : {"the river 12345 cafe\xCC\x81", "don't\n\n x"}) {
    EXPECT_EQ(pair("{}")->encode(text, false), of_row(0, text));
    EXPECT_EQ(pair(R"({"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": true})")->encode(text, false),
              of_row(0, " " + text));
    Json qwen = want["rows"][3]["tokenizer"];
    qwen["model"] = model, qwen["post_processor"] = nullptr;
    ASSERT_EQ(want["rows"][3]["name"], "qwen2");
    EXPECT_EQ(pair(R"({"tokenizer_class": "Qwen2Tokenizer"})")->encode(text, false), tokenizer_of(qwen)->encode(text, false));
  }
  EXPECT_USER_ERROR(pair(R"({"tokenizer_class": "LlamaTokenizer"})"), "'LlamaTokenizer' is not one of GPT2Tokenizer");
}

// ids and special tokens as Transformers 5.24 has them: what a class names by itself, in the order of its ids.
TEST(TokenizerJson, tokens_of_a_class) {
  Folder f;
  const Json whole = read_json(kGolden + "tokenizers.json")["rows"][0]["tokenizer"], model = whole["model"];
  std::string merges;
  for (const auto& m : model["merges"]) merges += m[0].get<std::string>() + " " + m[1].get<std::string>() + "\n";
  f.write("t/vocab.json", model["vocab"].dump());
  f.write("t/merges.txt", merges);
  const auto n = static_cast<int32_t>(open_tokenizer(f / "t")->size());
  auto with = [&](const std::string& config, const std::string& map = "{}") {
    f.write("t/tokenizer_config.json", config);
    f.write("t/special_tokens_map.json", map);
    return open_tokenizer(f / "t");
  };
  auto special = [&](const Tokenizer& t) {
    std::vector<int32_t> ids;
    for (const auto& id : {t.special().bos, t.special().eos, t.special().pad, t.special().unk})
      ids.push_back(id ? *id - n : -1);
    return ids;
  };
  using Ids = std::vector<int32_t>;
  const std::string qwen = R"({"tokenizer_class": "Qwen2Tokenizer")", gpt2 = R"({"tokenizer_class": "GPT2TokenizerFast")",
                    neox = R"({"tokenizer_class": "GPTNeoXTokenizer")",
                    all = R"(, "eos_token": "<E>", "pad_token": "<P>", )"
                          R"("unk_token": "<U>", "bos_token": "<B>"})";
  EXPECT_EQ(special(*with(qwen + "}")), (Ids{-1, 0, 0, 0}));
  EXPECT_EQ(special(*with(gpt2 + "}")), (Ids{0, 0, -1, 0}));
  EXPECT_EQ(special(*with(neox + "}")), (Ids{0, 0, 1, 0}));
  EXPECT_EQ(special(*with("{}")), (Ids{-1, -1, -1, -1}));
  EXPECT_EQ(special(*with(qwen + R"(, "eos_token": "<E>"})")), (Ids{-1, 0, 1, 1}));
  EXPECT_EQ(special(*with(gpt2 + R"(, "eos_token": "<E>"})")), (Ids{0, 1, -1, 0}));
  EXPECT_EQ(special(*with(neox + R"(, "eos_token": "<E>", "pad_token": null})")), (Ids{0, 1, -1, 0}));
  for (const std::string& name : {qwen, gpt2, neox}) EXPECT_EQ(special(*with(name + all)), (Ids{0, 1, 3, 2}));
  EXPECT_EQ(special(*with(qwen + R"(, "eos_token": "<E>"})", R"({"eos_token": "<F>", "pad_token": "<G>"})")),
            (Ids{-1, 0, 2, 1}));
  EXPECT_EQ(with(gpt2 + R"(, "add_bos_token": true})")->encode("<|endoftext|>", true), (Ids{n, n}));
}

// Older folders store the tokens beyond the vocabulary in added_tokens.json: ids are in its order, for any names.
TEST(TokenizerJson, added_tokens_in_a_file_of_their_own) {
  Folder f;
  using Ids = std::vector<int32_t>;
  const Json whole = read_json(kGolden + "tokenizers.json")["rows"][0]["tokenizer"], model = whole["model"];
  std::string merges;
  for (const auto& m : model["merges"]) merges += m[0].get<std::string>() + " " + m[1].get<std::string>() + "\n";
  f.write("old/vocab.json", model["vocab"].dump());
  f.write("old/merges.txt", merges);
  f.write("new/tokenizer.json", whole.dump());
  for (const std::string name : {"old", "new"}) {
    SCOPED_TRACE(name);
    const auto plain = open_tokenizer(f / name);
    const auto next = static_cast<int32_t>(plain->size());
    Ids want = plain->encode("the", false);
    want.insert(want.begin(), next), want.push_back(next + 1);
    const std::string text = "<|im_start|>the<|im_end|>", config = name + "/tokenizer_config.json",
                      map = name + "/special_tokens_map.json";
    f.write(name + "/added_tokens.json", Json{{"<|im_end|>", next + 1}, {"<|im_start|>", next}}.dump());
    auto t = open_tokenizer(f / name);
    EXPECT_EQ(t->encode(text, false), want);
    EXPECT_EQ(t->decode(want, true), text) << "nothing names them special";
    f.write(map, R"({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_end|>", "<|im_start|>"]})");
    t = open_tokenizer(f / name);
    EXPECT_EQ(t->encode(text, false), want);
    EXPECT_EQ(t->decode(want, true), "the");
    EXPECT_EQ(*t->special().eos, next + 1);
    f.write(config, R"({"added_tokens_decoder": {}})");
    EXPECT_EQ(open_tokenizer(f / name)->encode(text, false), plain->encode(text, false))
        << "both files are older than this setting";
    f.write(config, "{}");
    f.write(name + "/added_tokens.json", R"({"<|im_end|>": "x"})");
    EXPECT_USER_ERROR(open_tokenizer(f / name), "added_tokens.json: <|im_end|>): it must map a text to a token id");
  }
}

}  // namespace test_tokenizer_json
}  // namespace ravine

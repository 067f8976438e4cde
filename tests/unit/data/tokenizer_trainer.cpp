#include "text/training/trainer.h"

#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/text.h"
#include "data/source_texts.h"
#include "files/compressed.h"
#include "tests/unit/text_help.h"
#include "text/tokenizers/byte_alphabet.h"
#include "text/tokenizers/open_tokenizer.h"
#include "text/tokenizers/split_patterns.h"
#include "text/training/byte_bpe_trainer.h"

namespace ravine {
namespace test_tokenizer_trainer {

using test::Folder;

std::string corpus() {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += fmt::format("The river {} runs through the ravine; it sang of 20{} stones.\n\n", i * 7919 % 1000, i % 90);
  return text + "na\xC3\xAFve caf\xC3\xA9 " + std::string(20000, 'z') + "\n";
}

struct Training : TokenizerTraining {
  std::vector<std::string> input;
};

TrainedTokenizer train(const Training& t) {
  SourceTexts text(t.input, "text");
  return train_tokenizer(t, text);
}

Training training(const Folder& f) {
  Training t;
  t.input = {f.write("corpus.txt", corpus())};
  t.output = f / "out";
  t.vocabulary = 400;
  return t;
}

TEST(TokenizerTrainer, makes_a_llama_folder) {
  Folder f;
  auto t = training(f);
  t.symbols = {"<|call|>", "a,b"};
  auto result = train(t);
  EXPECT_LE(result.vocabulary, 400);  // a small text has fewer pieces in it
  EXPECT_GT(result.vocabulary, 340);
  EXPECT_GT(result.lines, 300);
  EXPECT_FALSE(result.cut_off);
  auto tokenizer = open_tokenizer(t.output);
  EXPECT_EQ(tokenizer->size(), result.vocabulary);
  EXPECT_EQ(tokenizer->special().unk, 0);
  EXPECT_EQ(tokenizer->special().bos, 1);
  EXPECT_EQ(tokenizer->special().eos, 2);
  for (const std::string text : {"The river", "  two  spaces", "new\nlines\t\n", "\xF0\x9F\x98\x80 12345", "<|call|>x a,b"}) {
    auto ids = tokenizer->encode(text, true);
    EXPECT_EQ(ids[0], 1);
    EXPECT_EQ(tokenizer->decode(ids, true), text);
  }
  EXPECT_EQ(tokenizer->encode("<|call|>", false).back(), 3);  // a symbol is one piece
  auto digits = tokenizer->encode("2024", false);
  // The space mark and four digits.
  EXPECT_EQ(digits.size(), 5u);
  EXPECT_LT(tokenizer->encode("The river runs through the ravine", false).size(), 15u);  // it did learn
}

// One id each wherever they stand, and no text: through either file of the folder, for every type.
TEST(TokenizerTrainer, special_tokens) {
  for (const char* type : {"bpe", "unigram", "byte-bpe"})
    for (bool prefix : {true, false}) {
      Folder f;
      auto t = training(f);
      t.type = type;
      t.add_dummy_prefix = prefix;
      t.symbols = {"<|call|>"};
      t.special = {"<|im_start|>", "<|im_end|>"};
      if (t.type == "unigram") t.symbols.clear();
      train(t);
      const auto tokenizer = open_tokenizer(t.output);
      const int32_t start = tokenizer->encode("<|im_start|>", false).back(),
                    end = tokenizer->encode("a<|im_end|>", false).back();
      EXPECT_EQ(tokenizer->id_to_piece(start), "<|im_start|>") << type;
      EXPECT_EQ(tokenizer->id_to_piece(end), "<|im_end|>") << type;
      const auto ids = tokenizer->encode("<|im_start|>river\nstones<|im_end|>", false);
      EXPECT_EQ(ids.front(), start);
      EXPECT_EQ(ids.back(), end);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), start) + std::count(ids.begin(), ids.end(), end), 2);
      EXPECT_EQ(tokenizer->decode(ids, true), "river\nstones") << type << prefix;
      if (!prefix || t.type == "byte-bpe")
        EXPECT_EQ(tokenizer->decode(ids, false), "<|im_start|>river\nstones<|im_end|>") << type;
    }
  Folder f;
  auto t = training(f);
  for (const char* taken : {"<s>", "<|call|>", "x\ny", ""}) {
    t.symbols = {"<|call|>"};
    t.special = {taken};
    EXPECT_THROW(train(t), UserError) << taken;
  }
}

// Pending text belongs to the side of a border that has its ids.
TEST(StreamDecoder, settles_at_a_border) {
  Folder f;
  auto t = training(f);
  train(t);
  for (const char* path : {"out", "out/tokenizer.model", "out/tokenizer.json"}) {
    const auto tokenizer = open_tokenizer(f / path);
    const auto ids = tokenizer->encode("The river\n\nsang\t\xE5\xB3\xA1", false);
    const std::string whole = tokenizer->decode(ids, false);
    for (size_t border = 0; border <= ids.size(); ++border) {
      StreamDecoder decoder(*tokenizer, false);
      std::string before, behind;
      for (size_t i = 0; i < border; ++i) before += decoder.next(ids[i]);
      before += decoder.settle();
      EXPECT_EQ(decoder.settle(), "") << "it is given once";
      for (size_t i = border; i < ids.size(); ++i) behind += decoder.next(ids[i]);
      behind += decoder.finish();
      const std::string prompt = tokenizer->decode(std::span(ids).first(border), false);
      EXPECT_EQ(before, prompt) << path << border;
      if (whole.starts_with(prompt))
        EXPECT_EQ(before + behind, whole) << path << border;
      else  // the border lies in a character
        EXPECT_TRUE(whole.ends_with(behind) && find_invalid_utf8(behind) == std::string::npos) << path << border;
    }
  }
}

// Transformers reads tokenizer.json, which gives the ids of tokenizer.model; tools/golden/compare_trained.py shows it
// with the library itself.
TEST(TokenizerTrainer, tokenizer_json_gives_the_ids_of_the_model) {
  for (const char* type : {"bpe", "unigram"})
    for (bool prefix : {true, false}) {
      Folder f;
      auto t = training(f);
      t.type = type;
      t.add_dummy_prefix = prefix;
      if (t.type == "bpe") t.symbols = {"<|call|>", "a,b"};
      train(t);
      auto model = open_tokenizer(f / "out/tokenizer.model"), json = open_tokenizer(f / "out/tokenizer.json");
      for (const std::string text : {"The river", " The river", "  two  spaces ", "new\nlines\t\n", "", " ",
                                     "\xF0\x9F\x98\x80 12345", "x <|call|>x a,b a,bc", "ravine\xE2\x96\x81ravine"})
        EXPECT_EQ(json->encode(text, false), model->encode(text, false)) << type << prefix << " '" << text << "'";
      EXPECT_EQ(json->encode("x", true).front(), 1) << "bos";
    }
}

TEST(TokenizerTrainer, repeats_and_does_not_depend_on_threads) {
  Folder f;
  auto t = training(f);
  t.overwrite = true;
  std::string first;
  for (int threads : {1, 3, 1}) {
    t.threads = threads;
    train(t);
    std::string model = read_whole(f / "out/tokenizer.model", 1 << 24);
    // The model records the number of threads it was made with; the pieces come before that.
    model = model.substr(0, model.size() * 9 / 10 < 4000 ? model.size() / 2 : 4000);
    if (first.empty()) first = model;
    EXPECT_EQ(model, first);
  }
}

TEST(TokenizerTrainer, unigram_nfkc_and_limits) {
  Folder f;
  auto t = training(f);
  t.type = "unigram";
  t.normalization = "nmt_nfkc";
  t.max_bytes = 5000;
  auto result = train(t);
  EXPECT_TRUE(result.cut_off);
  EXPECT_LE(result.bytes, 5100);
  auto tokenizer = open_tokenizer(f / "out/tokenizer.model");
  EXPECT_EQ(tokenizer->encode("\xEF\xBC\xB4he", false), tokenizer->encode("The", false));  // full-width T
}

TEST(TokenizerTrainer, a_pair_that_is_frequent_enough_is_learned) {
  std::vector<int32_t> id_of_byte(256);
  for (int b = 0; b < 256; ++b) id_of_byte[static_cast<size_t>(b)] = b;
  const std::vector<std::pair<std::string, int64_t>> words{{"ab", 3}, {"cd", 2}};
  for (auto [least, learned] : {std::pair{1, 2}, {2, 2}, {3, 1}, {4, 0}})
    EXPECT_EQ(learn_merges(words, id_of_byte, 300, least).size(), static_cast<size_t>(learned)) << least;
  EXPECT_EQ(learn_merges(words, id_of_byte, 257, 1).size(), 1u) << "no more than there is room for";
}

// The merges of tokenizers' own trainer on the same words (tools/golden/make_tokenizers.py).
TEST(TokenizerTrainer, byte_bpe_merges_as_hugging_face) {
  Json want = read_json(std::string(RAVINE_SOURCE_DIR) + "/tests/golden/bpe_training.json");
  ByteAlphabet alphabet;
  std::vector<int32_t> order(256), id_of_byte(256);
  for (int b = 0; b < 256; ++b) order[static_cast<size_t>(b)] = b;
  std::sort(order.begin(), order.end(), [&](int a, int b) { return alphabet.of_byte[a] < alphabet.of_byte[b]; });
  for (int i = 0; i < 256; ++i) id_of_byte[static_cast<size_t>(order[static_cast<size_t>(i)])] = i;
  for (const auto& c : want["cases"]) {
    auto pattern = c["pattern"] == "gpt2" ? SplitPattern::gpt2 : SplitPattern::llama3;
    std::map<std::string, int64_t> counts;
    for (const auto& text : want["corpus"])
      scan_words(pattern, *char_table(), text.get<std::string>(), [&](std::string_view w) { ++counts[std::string(w)]; });
    auto merges = learn_merges({counts.begin(), counts.end()}, id_of_byte, c["size"].get<int64_t>() - 1, c["min_frequency"]);
    std::vector<std::string> texts(256);
    for (int b = 0; b < 256; ++b)
      texts[static_cast<size_t>(id_of_byte[static_cast<size_t>(b)])] = std::string(1, static_cast<char>(b));
    ASSERT_EQ(merges.size(), c["model"].size());
    for (size_t i = 0; i < merges.size(); ++i) {
      std::string a = texts[static_cast<size_t>(merges[i].left)], b = texts[static_cast<size_t>(merges[i].right)];
      ASSERT_EQ(alphabet.map(a), c["model"][i][0].get<std::string>()) << i;
      ASSERT_EQ(alphabet.map(b), c["model"][i][1].get<std::string>()) << i;
      if (merges[i].becomes == static_cast<int32_t>(texts.size())) texts.push_back(a + b);
    }
  }
}

TEST(TokenizerTrainer, byte_bpe_folder_with_any_number_of_threads) {
  Folder f;
  auto t = training(f);
  t.type = "byte-bpe";
  t.vocabulary = 500;
  t.symbols = {"<|call|>"};
  t.overwrite = true;
  std::string first;
  int before = thread_count();
  for (int threads : {1, 3}) {
    set_thread_count(threads);
    auto result = train(t);
    EXPECT_LE(result.vocabulary, 500);
    EXPECT_GT(result.vocabulary, 300);
    std::string json = read_whole(f / "out/tokenizer.json", 1 << 24);
    if (first.empty()) first = json;
    EXPECT_EQ(json, first);
  }
  set_thread_count(before);
  auto tokenizer = open_tokenizer(t.output);
  EXPECT_EQ(tokenizer->special().eos, 0);
  EXPECT_EQ(tokenizer->id_to_piece(1), "<|call|>");
  for (const std::string text : {"The river", "  two  spaces", "new\nlines\t\n", "\xF0\x9F\x98\x80 12345", "<|call|>x a,b"})
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, true), false), text);
  EXPECT_LT(tokenizer->encode("The river runs through the ravine", false).size(), 12u);
}

TEST(TokenizerTrainer, errors_write_nothing) {
  Folder f;
  auto wrong = [&](auto change, const char* part) {
    auto t = training(f);
    change(t);
    EXPECT_USER_ERROR(train(t), part);
    EXPECT_FALSE(std::filesystem::exists(f / "out"));
  };
  wrong([](auto& t) { t.vocabulary = 100; },
        "--vocab-size is 100 (tokenizer train): bytes, special tokens and symbols are pieces too, so it is 260 to");
  wrong([](auto& t) { t.vocabulary = 261; }, "vocabulary too small (vocab-size, 261)");
  wrong([](auto& t) { t.type = "magic"; }, "bpe, unigram or byte-bpe");
  wrong([](auto& t) { t.type = "byte-bpe", t.pattern = "gpt9"; }, "gpt2, llama3 or qwen2");
  wrong([](auto& t) { t.type = "byte-bpe", t.vocabulary = 256; }, "257 to");
  wrong([](auto& t) { t.normalization = "nfd"; }, "identity or nmt_nfkc");
  wrong([](auto& t) { t.character_coverage = 0; }, "0.98 <= share <= 1");
  wrong([](auto& t) { t.symbols = {""}; }, "symbols");
  wrong([](auto& t) { t.input = {}; }, "name at least one text file");
  wrong([&](auto& t) { t.input = {f.write("empty.txt", "\n\n")}; }, "no text in the data");
  wrong([&](auto& t) { t.input = {f.write("bad.txt", corpus() + "\xFF")}; }, "text is not UTF-8");
  wrong([&](auto& t) { t.input = {f / "none.txt"}; }, "no such data");
}

// Learns byte pairs by the definition: the most frequent pair first, among equals the lowest ids, joined from the left
// in every word.
std::vector<BpeMerge> learn_plainly(const std::vector<std::pair<std::string, int64_t>>& words,
                                    const std::vector<int32_t>& id_of_byte, int64_t tokens, int64_t least) {
  std::vector<std::vector<int32_t>> ids;
  for (const auto& [word, n] : words) {
    ids.emplace_back();
    for (char c : word) ids.back().push_back(id_of_byte[static_cast<unsigned char>(c)]);
  }
  std::vector<BpeMerge> merges;
  for (auto next = static_cast<int32_t>(256); next < tokens; ++next) {
    std::map<std::pair<int32_t, int32_t>, int64_t> pairs;
    for (size_t w = 0; w < ids.size(); ++w)
      for (size_t i = 0; i + 1 < ids[w].size(); ++i) pairs[{ids[w][i], ids[w][i + 1]}] += words[w].second;
    std::pair<int32_t, int32_t> best;
    int64_t most = 0;
    for (const auto& [pair, n] : pairs)
      if (n > most) most = n, best = pair;
    if (most < least || most == 0) break;
    merges.push_back({best.first, best.second, next});
    for (auto& word : ids)
      for (size_t i = 0; i + 1 < word.size(); ++i)
        if (word[i] == best.first && word[i + 1] == best.second)
          word[i] = next, word.erase(word.begin() + static_cast<ptrdiff_t>(i) + 1);
  }
  return merges;
}

// Pairs in more than 4096 words are joined by several threads.
TEST(TokenizerTrainer, merges_of_many_words_are_those_of_the_definition) {
  std::vector<int32_t> id_of_byte(256);
  for (int b = 0; b < 256; ++b) id_of_byte[static_cast<size_t>(b)] = 255 - b;
  std::map<std::string, int64_t> counts;
  uint32_t state = 1;
  auto draw = [&](uint32_t n) { return (state = state * 1664525u + 1013904223u) / 65536 % n; };
  while (counts.size() < 6000) {
    std::string word = draw(4) ? "th" : "aaa";
    for (uint32_t k = 1 + draw(6); k-- > 0;) word += static_cast<char>('a' + draw(9));
    counts[word] += 1 + draw(3);
  }
  const std::vector<std::pair<std::string, int64_t>> words(counts.begin(), counts.end());
  const int before = thread_count();
  for (int threads : {1, 3})
    for (int64_t least : {1, 400}) {
      set_thread_count(threads);
      const auto got = learn_merges(words, id_of_byte, 300, least), want = learn_plainly(words, id_of_byte, 300, least);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(got[i].left == want[i].left && got[i].right == want[i].right && got[i].becomes == want[i].becomes) << i;
    }
  set_thread_count(before);
}

TEST(TokenizerTrainer, what_byte_bpe_writes_and_how_much_it_reads) {
  Folder f;
  auto t = training(f);
  t.type = "byte-bpe";
  t.vocabulary = 300;
  t.symbols = {"<|a|>", "<|endoftext|>", "<|b|>", "<|a|>"};
  t.pattern = "qwen2";
  const TrainedTokenizer all = train(t);
  EXPECT_EQ(all.vocabulary, 300);
  EXPECT_FALSE(all.cut_off);
  EXPECT_EQ(all.bytes, static_cast<int64_t>(corpus().size()));
  const Json j = read_json(f / "out/tokenizer.json"), config = read_json(f / "out/tokenizer_config.json");
  ASSERT_EQ(j["added_tokens"].size(), 3u);
  for (auto [i, text] : std::vector<std::pair<size_t, const char*>>{{0, "<|endoftext|>"}, {1, "<|a|>"}, {2, "<|b|>"}}) {
    EXPECT_EQ(j["added_tokens"][i]["content"], text);
    EXPECT_EQ(j["added_tokens"][i]["id"], i);
    EXPECT_EQ(j["model"]["vocab"][text], i);
  }
  EXPECT_EQ(j["model"]["vocab"]["!"], 3) << "then the bytes by their characters";
  EXPECT_EQ(j["model"]["vocab"].size(), 300u);
  EXPECT_EQ(j["model"]["merges"].size(), 300u - 256 - 3);
  EXPECT_EQ(j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"], pattern_text(SplitPattern::qwen2));
  EXPECT_EQ(j["pre_tokenizer"]["pretokenizers"][1]["use_regex"], false);
  EXPECT_EQ(config["eos_token"], "<|endoftext|>");
  t.overwrite = true;
  t.pattern = "gpt2";
  t.max_bytes = 1;
  const TrainedTokenizer cut = train(t);
  EXPECT_TRUE(cut.cut_off);
  EXPECT_EQ(cut.lines, 1) << "a document is not cut";
  EXPECT_EQ(read_json(f / "out/tokenizer.json")["pre_tokenizer"]["use_regex"], true);
}

// Lines of more than 4000 bytes are cut at blanks, else at characters; empty ones are none.
TEST(TokenizerTrainer, lines_that_sentencepiece_sees) {
  Folder f;
  auto t = training(f);
  t.vocabulary = 300;
  std::string words;
  while (words.size() < 8500) words += "abcdefghi ";
  std::string solid;
  while (solid.size() < 6000) solid += "\xE5\xB1\xB1";
  t.input = {f.write("a.txt", words + "\n\n" + solid + "\nend\n")};
  const TrainedTokenizer got = train(t);
  EXPECT_EQ(got.lines, 3 + 2 + 1);
  EXPECT_EQ(got.bytes, static_cast<int64_t>(words.size() + solid.size() + 3));
  EXPECT_FALSE(got.cut_off);
  t.overwrite = true;
  t.max_bytes = 3000;
  EXPECT_EQ(train(t).lines, 1);
}

}  // namespace test_tokenizer_trainer
}  // namespace ravine

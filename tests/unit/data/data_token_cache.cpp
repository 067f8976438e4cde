// Tokens cached between starts: the same samples as without the cache, never stale; a damaged file is only a miss.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <iterator>

#include "data/open_datasets.h"
#include "tests/unit/data_help.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace test_data_token_cache {
using test::Bytes;
using test::Folder;

// A tokenizer that counts its work, and of which there are two kinds.
class Counting : public Bytes {
 public:
  explicit Counting(uint64_t kind = 1) : Bytes(true), kind_(kind) {}
  uint64_t fingerprint() const override { return kind_; }
  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    ++calls;
    return Bytes::encode(text, add_special);
  }
  uint64_t kind_;
  mutable std::atomic<int> calls{0};
};

// The same of a tokenizer with a chat template.
class CountingChat : public Tokenizer {
 public:
  CountingChat() : real_(open_tokenizer(RAVINE_SOURCE_DIR "/tests/golden/chat")) { special_ = real_->special(); }
  std::string kind() const override { return real_->kind(); }
  int64_t size() const override { return real_->size(); }
  uint64_t fingerprint() const override { return real_->fingerprint(); }
  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    ++calls;
    return real_->encode(text, add_special);
  }
  std::unique_ptr<Decoding> start_decoding(bool skip) const override { return real_->start_decoding(skip); }
  std::string id_to_piece(int32_t id) const override { return real_->id_to_piece(id); }
  mutable std::atomic<int> calls{0};

 private:
  std::unique_ptr<Tokenizer> real_;
};

DatasetOptions options(const Folder& f, const std::string& file) {
  DatasetOptions o;
  o.train = {{file, 1}};
  o.sequence_length = 16;
  o.valid_fraction = 0.3;
  o.threads = 1;
  o.token_folder = f / "tokens";
  return o;
}

std::string lines(int n) {
  std::string text;
  for (int i = 0; i < n; ++i)
    text += "{\"text\": \"document number " + std::to_string(i) + " of them\", \"other\": \"x" + std::to_string(i) +
            "\", \"side\": \"y" + std::to_string(i) + "\"}\n";
  return text;
}

std::vector<int32_t> all(const Datasets& d) {
  std::vector<int32_t> out;
  for (const Dataset* set : {d.train.get(), d.valid.get()})
    for (int64_t i = 0; set && i < set->sample_count(); ++i) {
      Sample s = set->sample(i);
      out.insert(out.end(), s.ids.begin(), s.ids.end());
      out.insert(out.end(), s.labels.begin(), s.labels.end());
      for (unsigned char c : set->origin(i)) out.push_back(c);
    }
  return out;
}

TEST(TokenCache, SecondStartReadsWhatTheFirstWrote) {
  Folder f;
  std::string file = f.write("a.jsonl", lines(40));
  Counting t;
  Datasets first = open_datasets(options(f, file), &t);
  int work = t.calls;
  EXPECT_GE(work, 40);
  EXPECT_FALSE(std::filesystem::exists(f / "tokens")) << "opening writes nothing";
  save_tokens(f / "tokens", first.tokens);
  Datasets second = open_datasets(options(f, file), &t);
  EXPECT_EQ(t.calls, work) << "tokenized again";
  EXPECT_EQ(all(first), all(second));
  ASSERT_EQ(second.tokens.size(), 1u);
  EXPECT_FALSE(second.tokens[0].fresh);
}

TEST(TokenCache, WhateverChangesTheIdsMisses) {
  Folder f;
  std::string file = f.write("a.jsonl", lines(40));
  Counting t;
  Datasets first = open_datasets(options(f, file), &t);
  save_tokens(f / "tokens", first.tokens);
  auto misses = [&](const DatasetOptions& o, const Counting& tokenizer, const char* what) {
    int before = tokenizer.calls;
    Datasets d = open_datasets(o, &tokenizer);
    EXPECT_GT(tokenizer.calls, before) << what;
    DatasetOptions plain = o;
    plain.token_folder.clear();
    EXPECT_EQ(all(d), all(open_datasets(plain, &tokenizer))) << what;
  };
  Counting other(2);
  misses(options(f, file), other, "another tokenizer");
  for (auto& [what, change] : std::vector<std::pair<const char*, std::function<void(DatasetOptions&)>>>{
           {"append_eos", [](DatasetOptions& o) { o.append_eos = false; }},
           {"text_key", [](DatasetOptions& o) { o.text_key = "other"; }},
           {"text_key of the same length", [](DatasetOptions& o) { o.text_key = "side"; }},
           {"valid_fraction", [](DatasetOptions& o) { o.valid_fraction = 0.5; }},
           {"vocabulary", [](DatasetOptions& o) { o.vocabulary = 300; }}}) {
    DatasetOptions o = options(f, file);
    change(o);
    misses(o, t, what);
  }
  f.write("a.jsonl",
          // Same size.
          lines(39) + "{\"text\": \"document number 39 of tham\", \"other\": \"x39\", \"side\": \"y39\"}\n");
  misses(options(f, file), t, "a changed file of the same size");
}

std::string chat_lines(int n) {
  std::string text;
  for (int i = 0; i < n; ++i)
    text += "{\"instruction\": \"what is " + std::to_string(i) + "\", \"output\": \"" +
            std::string(static_cast<size_t>(i), 'x') + " it is\"}\n";
  return text;
}

// Ids that an older encoder made, under whatever key, are not taken.
TEST(TokenCache, ConversationsOfAnOlderEncoderAreNotTaken) {
  Folder f;
  const std::string file = f.write("a.jsonl", chat_lines(40));
  CountingChat t;
  DatasetOptions o = options(f, file);
  o.sequence_length = 400;
  o.chat_template = "chatml";
  Datasets first = open_datasets(o, &t);
  save_tokens(f / "tokens", first.tokens);
  std::vector<std::filesystem::path> kept;
  for (const auto& entry : std::filesystem::directory_iterator(f / "tokens"))
    if (entry.path().extension() == ".safetensors") kept.push_back(entry.path());
  ASSERT_EQ(kept.size(), 1u);
  std::ifstream in(kept[0], std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const size_t at = bytes.find("ravine-chats-3");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 13] = '2';  // of the encoder before
  std::ofstream(kept[0], std::ios::binary) << bytes;
  const int before = t.calls;
  open_datasets(o, &t);
  EXPECT_GE(t.calls - before, 40) << "taken from an older encoder";
}

TEST(TokenCache, ConversationsAreKeptToo) {
  Folder f;
  std::string file = f.write("a.jsonl", chat_lines(40));
  CountingChat t;
  DatasetOptions o = options(f, file);
  o.sequence_length = 400;
  o.chat_template = "chatml";
  Datasets first = open_datasets(o, &t);
  int work = t.calls;
  save_tokens(f / "tokens", first.tokens);
  auto again = [&](const DatasetOptions& with) {  // whether it was encoded again
    int before = t.calls;
    Datasets d = open_datasets(with, &t);
    DatasetOptions plain = with;
    plain.token_folder.clear();
    int spent = t.calls - before;
    Datasets p = open_datasets(plain, &t);
    EXPECT_EQ(all(d), all(p));
    EXPECT_EQ(d.notes, p.notes);
    EXPECT_EQ(d.end_token, p.end_token);
    return spent >= 40;
  };
  EXPECT_GE(work, 40);
  EXPECT_FALSE(again(o));
  for (auto& [what, change] : std::vector<std::pair<const char*, std::function<void(DatasetOptions&)>>>{
           {"loss_on", [](DatasetOptions& c) { c.loss_on = LossOn::all; }},
           {"too_long", [](DatasetOptions& c) { c.too_long = TooLong::drop; }},
           {"sequence_length", [](DatasetOptions& c) { c.sequence_length = 390; }},
           {"chat_template", [](DatasetOptions& c) { c.chat_template = "qwen"; }},
           {"valid_fraction", [](DatasetOptions& c) { c.valid_fraction = 0.5; }}}) {
    DatasetOptions c = o;
    change(c);
    EXPECT_TRUE(again(c)) << what;
  }
  f.write("a.jsonl",
          chat_lines(39) + "{\"instruction\": \"what is 39\", \"output\": \"" + std::string(39, 'x') + " it was\"}\n");
  EXPECT_TRUE(again(o)) << "a changed file";
  // Damage is a miss.
  f.write("a.jsonl", chat_lines(40));
  std::string path = std::filesystem::directory_iterator(f / "tokens")->path().string();
  std::ifstream in(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  for (size_t i = 0; i < good.size(); i += 29) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    std::ofstream(path, std::ios::binary) << bad;
    EXPECT_EQ(all(open_datasets(o, &t)), all(first)) << "bit of byte " << i;
  }
}

TEST(TokenCache, EveryDamageIsAMiss) {
  Folder f;
  std::string file = f.write("a.jsonl", lines(12));
  Counting t;
  Datasets first = open_datasets(options(f, file), &t);
  save_tokens(f / "tokens", first.tokens);
  std::string path = std::filesystem::directory_iterator(f / "tokens")->path().string();
  std::ifstream in(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  for (size_t i = 0; i < good.size(); i += 7) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    std::ofstream(path, std::ios::binary) << bad;
    EXPECT_EQ(all(open_datasets(options(f, file), &t)), all(first)) << "bit of byte " << i;
  }
  for (size_t size : {size_t{0}, size_t{7}, good.size() / 2, good.size() - 1}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << good.substr(0, size);
    Datasets d = open_datasets(options(f, file), &t);
    EXPECT_EQ(all(d), all(first)) << "cut to " << size;
    EXPECT_TRUE(d.tokens[0].fresh);
  }
}

TEST(TokenCache, OldKeysAreRemoved) {
  Folder f;
  std::string file = f.write("a.jsonl", lines(12));
  Counting t;
  Datasets d = open_datasets(options(f, file), &t);
  save_tokens(f / "tokens", d.tokens);
  f.write("a.jsonl", lines(13));
  d = open_datasets(options(f, file), &t);
  save_tokens(f / "tokens", d.tokens);
  int files = 0;
  for ([[maybe_unused]] auto& e : std::filesystem::directory_iterator(f / "tokens")) ++files;
  EXPECT_EQ(files, 1);
}

}  // namespace test_data_token_cache
}  // namespace ravine

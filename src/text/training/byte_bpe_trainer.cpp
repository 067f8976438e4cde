#include "text/training/byte_bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "text/tokenizer_set.h"
#include "text/tokenizers/byte_alphabet.h"
#include "text/tokenizers/model.h"
#include "text/tokenizers/split_patterns.h"
#include "text/tokenizers/vocabulary.h"

namespace ravine {

namespace {

constexpr const char* kEndOfText = "<|endoftext|>";
constexpr size_t kBatch = size_t{16} << 20;  // bytes of text that are counted at a time
constexpr int64_t kParts = 64;               // of work, for any number of threads
constexpr size_t kManyWords = 4096;          // from this number on, several threads join a pair

using Counts = std::unordered_map<std::string, int64_t>;

// ---------------------------------------------------------------- words of the text with their counts

class WordCounter {
 public:
  explicit WordCounter(SplitPattern pattern) : pattern_(pattern) {}

  void add(std::string text) {
    bytes_ += text.size();
    texts_.push_back(std::move(text));
    if (bytes_ >= kBatch) count();
  }

  std::vector<std::pair<std::string, int64_t>> finish() {
    count();
    std::vector<std::pair<std::string, int64_t>> words(all_.begin(), all_.end());
    std::sort(words.begin(), words.end());
    return words;
  }

 private:
  void count() {
    auto parts = static_cast<int64_t>(std::min<size_t>(texts_.size(), kParts));
    std::vector<Counts> of(static_cast<size_t>(parts));
    parallel_for(parts, [&](int64_t p) {
      Counts& mine = of[static_cast<size_t>(p)];
      std::string key;
      for (size_t t = static_cast<size_t>(p); t < texts_.size(); t += static_cast<size_t>(parts))
        scan_words(pattern_, *table_, texts_[t], [&](std::string_view word) {
          key.assign(word);
          ++mine[key];
        });
    });
    for (const auto& part : of)
      for (const auto& [word, n] : part) all_[word] += n;
    texts_.clear();
    bytes_ = 0;
  }

  SplitPattern pattern_;
  std::shared_ptr<const CharTable> table_ = char_table();
  std::vector<std::string> texts_;
  size_t bytes_ = 0;
  Counts all_;
};

// ---------------------------------------------------------------- merges

uint64_t pair_key(int32_t a, int32_t b) { return uint64_t{static_cast<uint32_t>(a)} << 32 | static_cast<uint32_t>(b); }

struct Change {
  uint64_t pair;
  int64_t count;
  uint32_t word;
};

// Joins a pair in one word and records the changes of pairs, as Word::merge of the library.
void join_pair(std::vector<int32_t>& w, int32_t a, int32_t b, int32_t becomes, int64_t count, uint32_t index,
               std::vector<Change>& changes) {
  size_t to = 0;
  for (size_t i = 0; i < w.size();) {
    if (i + 1 < w.size() && w[i] == a && w[i + 1] == b) {
      if (to > 0) {
        changes.push_back({pair_key(w[to - 1], a), -count, index});
        changes.push_back({pair_key(w[to - 1], becomes), count, index});
      }
      if (i + 2 < w.size()) {
        changes.push_back({pair_key(b, w[i + 2]), -count, index});
        changes.push_back({pair_key(becomes, w[i + 2]), count, index});
      }
      w[to++] = becomes;
      i += 2;
    } else {
      w[to++] = w[i++];
    }
  }
  w.resize(to);
}

struct Candidate {
  int64_t count;
  uint64_t pair;
  std::vector<uint32_t> words;  // that got the pair before this candidate was made
};
struct Later {  // the most frequent first, then the lowest ids
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

class Learner {
 public:
  Learner(const std::vector<std::pair<std::string, int64_t>>& words, const std::vector<int32_t>& id_of_byte) {
    words_.resize(words.size());
    counts_.resize(words.size());
    texts_.resize(256);
    for (int b = 0; b < 256; ++b)
      texts_[static_cast<size_t>(id_of_byte[static_cast<size_t>(b)])] = std::string(1, static_cast<char>(b));
    for (size_t i = 0; i < texts_.size(); ++i) ids_[texts_[i]] = static_cast<int32_t>(i);
    for (size_t w = 0; w < words.size(); ++w) {
      counts_[w] = words[w].second;
      for (char c : words[w].first) words_[w].push_back(id_of_byte[static_cast<unsigned char>(c)]);
    }
    count_pairs();
  }

  std::vector<BpeMerge> run(int64_t tokens, int64_t min_frequency) {
    std::vector<BpeMerge> merges;
    while (static_cast<int64_t>(texts_.size()) < tokens && !heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), Later());
      Candidate top = std::move(heap_.back());
      heap_.pop_back();
      int64_t now = pairs_[top.pair];
      if (top.count != now) {  // its count has decreased; it is queued again
        top.count = now;
        if (now > 0) push(std::move(top));
        continue;
      }
      if (top.count < 1 || top.count < min_frequency) break;
      auto a = static_cast<int32_t>(top.pair >> 32), b = static_cast<int32_t>(top.pair);
      auto [known, fresh] =
          ids_.emplace(texts_[static_cast<size_t>(a)] + texts_[static_cast<size_t>(b)], static_cast<int32_t>(texts_.size()));
      if (fresh) texts_.push_back(known->first);
      merges.push_back({a, b, known->second});
      join(top, a, b, known->second);
    }
    return merges;
  }

 private:
  void push(Candidate c) {
    heap_.push_back(std::move(c));
    std::push_heap(heap_.begin(), heap_.end(), Later());
  }

  void count_pairs() {
    auto parts = static_cast<int64_t>(std::min<size_t>(words_.size(), kParts));
    std::vector<std::vector<Change>> of(static_cast<size_t>(parts));
    parallel_for(parts, [&](int64_t p) {
      for (size_t w = static_cast<size_t>(p); w < words_.size(); w += static_cast<size_t>(parts))
        for (size_t i = 0; i + 1 < words_[w].size(); ++i)
          of[static_cast<size_t>(p)].push_back(
              {pair_key(words_[w][i], words_[w][i + 1]), counts_[w], static_cast<uint32_t>(w)});
    });
    for (auto& part : of) {
      apply(part);
      part = {};
    }
    offer();
  }

  void join(Candidate& top, int32_t a, int32_t b, int32_t becomes) {
    std::sort(top.words.begin(), top.words.end());
    top.words.erase(std::unique(top.words.begin(), top.words.end()), top.words.end());
    size_t parts = top.words.size() < kManyWords ? 1 : kParts;
    std::vector<std::vector<Change>> of(parts);
    auto part = [&](int64_t p) {
      for (size_t k = static_cast<size_t>(p); k < top.words.size(); k += parts) {
        uint32_t w = top.words[k];
        join_pair(words_[w], a, b, becomes, counts_[w], w, of[static_cast<size_t>(p)]);
      }
    };
    if (parts == 1)
      part(0);
    else
      parallel_for(static_cast<int64_t>(parts), part);
    for (const auto& changes : of) apply(changes);
    offer();
  }

  void apply(const std::vector<Change>& changes) {
    for (const Change& c : changes) {
      pairs_[c.pair] += c.count;
      if (c.count > 0) gained_[c.pair].push_back(c.word);
    }
  }

  void offer() {
    for (auto& [pair, words] : gained_)
      if (int64_t n = pairs_[pair]; n > 0) push({n, pair, std::move(words)});
    gained_.clear();
  }

  std::vector<std::vector<int32_t>> words_;
  std::vector<int64_t> counts_;
  std::vector<std::string> texts_;  // of tokens
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<uint64_t, int64_t> pairs_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> gained_;
  std::vector<Candidate> heap_;
};

SplitPattern pattern_of(const std::string& name) {
  return name == "llama3" ? SplitPattern::llama3 : name == "qwen2" ? SplitPattern::qwen2 : SplitPattern::gpt2;
}

Json pre_tokenizer_of(SplitPattern pattern) {
  Json bytes{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", pattern == SplitPattern::gpt2}};
  if (pattern == SplitPattern::gpt2) return bytes;
  Json split{{"type", "Split"}, {"pattern", {{"Regex", pattern_text(pattern)}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}};
}

}  // namespace

std::vector<BpeMerge> learn_merges(const std::vector<std::pair<std::string, int64_t>>& words,
                                   const std::vector<int32_t>& id_of_byte, int64_t tokens, int64_t min_frequency) {
  return Learner(words, id_of_byte).run(tokens, min_frequency);
}

TrainedTokenizer train_byte_bpe(const TokenizerTraining& o, TrainingText& text) {
  SplitPattern pattern = pattern_of(o.pattern);
  WordCounter counter(pattern);
  TrainedTokenizer result;
  for (std::string document; !result.cut_off && text.next(document);) {
    ++result.lines;
    result.bytes += static_cast<int64_t>(document.size());
    counter.add(document);
    result.cut_off = result.bytes >= o.max_bytes;
  }
  auto words = counter.finish();
  if (words.empty()) throw UserError("no text in the data", text.name(), "a tokenizer learns from text", "check the files");

  // Special tokens come first, then the bytes by their characters, then the learned tokens.
  std::vector<std::string> special{kEndOfText};
  for (const auto* list : {&o.symbols, &o.special})
    for (const auto& s : *list)
      if (std::find(special.begin(), special.end(), s) == special.end()) special.push_back(s);
  ByteAlphabet alphabet;
  std::vector<int32_t> order(256), id_of_byte(256);
  for (int b = 0; b < 256; ++b) order[static_cast<size_t>(b)] = b;
  std::sort(order.begin(), order.end(), [&](int a, int b) { return alphabet.of_byte[a] < alphabet.of_byte[b]; });
  for (int i = 0; i < 256; ++i) id_of_byte[static_cast<size_t>(order[static_cast<size_t>(i)])] = i;
  auto first = static_cast<int64_t>(special.size());
  auto merges = learn_merges(words, id_of_byte, o.vocabulary - first, o.min_frequency);

  std::vector<std::string> texts(256);  // as the file spells them
  for (int b = 0; b < 256; ++b)
    append_utf8(texts[static_cast<size_t>(id_of_byte[static_cast<size_t>(b)])], alphabet.of_byte[b]);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& m : merges) {
    const std::string a = texts[static_cast<size_t>(m.left)], b = texts[static_cast<size_t>(m.right)];
    pairs.emplace_back(a, b);
    if (m.becomes == static_cast<int32_t>(texts.size())) texts.push_back(a + b);
  }
  result.vocabulary = first + static_cast<int64_t>(texts.size());
  std::string vocab;
  Json added = Json::array();
  int64_t id = 0;
  for (const auto& s : special) {
    vocab += fmt::format("{}{}:{}", id ? "," : "", Json(s).dump(), id);
    added.push_back({{"id", id++},
                     {"content", s},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  for (const auto& t : texts) vocab += fmt::format(",{}:{}", Json(t).dump(), id++);
  Json decoder{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  Json post{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}};
  std::string json = fmt::format(
      "{{\n\"version\":\"1.0\",\n\"truncation\":null,\n\"padding\":null,\n\"added_tokens\":{},\n\"normalizer\":null,\n\"pre_tokenizer\":{},\n"
      "\"post_processor\":{},\n\"decoder\":{},\n\"model\":{{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
      "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,\n\"vocab\":{{{}}},\n\"merges\":{}}}\n}}\n",
      added.dump(), pre_tokenizer_of(pattern).dump(), post.dump(), decoder.dump(), vocab, merges_json(pairs).dump());
  Json config{{"clean_up_tokenization_spaces", false},
              {"eos_token", kEndOfText},
              {"model_max_length", 1000000000},
              {"tokenizer_class", "PreTrainedTokenizerFast"}};
  write_tokenizer(o.output, {{"tokenizer_config.json", config.dump(2) + "\n"}, {"tokenizer.json", json}}, o.overwrite);
  return result;
}

}  // namespace ravine

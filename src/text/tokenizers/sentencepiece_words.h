// SentencePiece's BPE in parts: text is cut where no token can lie across, each part is encoded separately, and short
// parts are cached. The ids are equal to the ids of the whole text. The time is a fraction, and the memory does not
// grow with the text.
#pragma once
#include <sentencepiece_processor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/word_cache.h"

namespace ravine {

// Two adjacent characters that are adjacent in no piece are never joined, because joining makes pieces, of neighbours
// only. In BPE the joins on one side do not depend on the other side. In Unigram scores are added over the text in
// floats, so text cannot be cut.
class SentencePieceWords {
 public:
  // pieces: the texts of all pieces that a text may match. joins_unknown: true if adjacent unknown characters become
  // one id (no byte fallback). inner: encodes parts after the first one; it puts no space before them and removes no
  // white space.
  SentencePieceWords(const std::vector<std::string_view>& pieces, bool joins_unknown,
                     std::unique_ptr<sentencepiece::SentencePieceProcessor> inner);

  // Appends the ids of a text. first(part, ids): encodes the first part of the text, with the space before it.
  template <class First>
  void encode(std::string_view text, std::vector<int32_t>& ids, First first) const {
    size_t begin = next_cut(text, 0);
    first(text.substr(0, begin), ids);
    if (begin < text.size()) encode_rest(text, begin, ids);
  }

 private:
  // Returns the first position after `from` where the text may be cut; the end of the text if there is none.
  size_t next_cut(std::string_view text, size_t from) const;
  void encode_rest(std::string_view text, size_t begin, std::vector<int32_t>& ids) const;
  bool joined(char32_t a, char32_t b) const;

  std::vector<uint64_t> pairs_;    // hashed: neighbours in a piece, as a << 32 | b; 0: free
  std::vector<uint32_t> singles_;  // sorted: characters that are pieces, if unknown characters join
  bool joins_unknown_;
  bool ascii_[128][128] = {};
  std::unique_ptr<sentencepiece::SentencePieceProcessor> inner_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> caches_;  // not in use; as many as threads encoded at the same time
};

}  // namespace ravine

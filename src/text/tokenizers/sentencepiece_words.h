// SentencePiece's BPE in pieces: text is cut where no token can lie across, each part is encoded by itself, and short parts are
// remembered. The ids are those of the whole text, in a fraction of the time and with memory that does not grow with the text.
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

// Between two characters that stand side by side in no piece nothing is ever joined: joining makes pieces, and only of
// neighbours. That holds for BPE, whose joins on one side do not see the other; not for Unigram, where scores add up over the
// text in floats.
class SentencePieceWords {
 public:
  // pieces: texts of all pieces that text may match; joins_unknown: neighbouring unknown characters become one id (no byte
  // fallback). `inner` encodes what does not stand at the beginning: no space is put in front, no white space removed.
  SentencePieceWords(const std::vector<std::string_view>& pieces, bool joins_unknown,
                     std::unique_ptr<sentencepiece::SentencePieceProcessor> inner);

  // first: encodes the beginning of a text.
  template <class First>
  void encode(std::string_view text, std::vector<int32_t>& ids, First first) const {
    size_t begin = next_cut(text, 0);
    first(text.substr(0, begin), ids);
    if (begin < text.size()) encode_rest(text, begin, ids);
  }

 private:
  // The first place behind `from` where the text may be cut; its end if there is none.
  size_t next_cut(std::string_view text, size_t from) const;
  void encode_rest(std::string_view text, size_t begin, std::vector<int32_t>& ids) const;
  bool joined(char32_t a, char32_t b) const;

  std::vector<uint64_t> pairs_;    // hashed: neighbours in a piece, as a << 32 | b; 0: free
  std::vector<uint32_t> singles_;  // sorted: characters that are pieces, where unknown ones join
  bool joins_unknown_;
  bool ascii_[128][128] = {};
  std::unique_ptr<sentencepiece::SentencePieceProcessor> inner_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> caches_;  // not in use; one per thread that ever encoded at a time
};

}  // namespace ravine

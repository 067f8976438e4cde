// Reads a set of preference pairs, encoded on all cores, and makes samples of them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/instruct/chat_set.h"
#include "data/instruct/chat_store.h"
#include "data/instruct/preference.h"
#include "data/stream.h"

namespace ravine {

// Reads and encodes the preference pairs of files. In the stores of the result, conversation 2p is the prompt with the
// chosen answer of pair p, and 2p + 1 the prompt with the rejected answer.
// options.longest is the limit of tokens of each of the two (TRL's max_length). A longer one is cut at its end (TRL's
// keep_start); with TooLong::drop its pair is dropped. A pair whose prompt reaches the limit is dropped and counted as
// answer_behind. A pair with equal answers is dropped and counted as without_answer.
// An invalid record is a UserError that names file and record; so is a set of which all pairs are dropped.
ChatSet read_pairs(const std::vector<std::string>& files, const Tokenizer& tokenizer, const PairEncoder& encoder,
                   const ChatSetOptions& options);
// Returns the counts of read_pairs() as text: "100 pairs, 21234 tokens (71 % learned), 12 cut, 3 left out: ..."
std::string pair_counts_text(const ChatCounts& counts);
// Returns a warning if pairs were dropped for equal answers, or if many pairs were dropped; else "".
std::string pair_counts_warning(const ChatCounts& counts);

// True if the preferences of a file are conversations, by its first record: chosen and rejected are messages, not
// texts. A first record that is not a preference is a UserError.
bool holds_conversations_of_preferences(const std::string& file);

// The samples made of a store of preference pairs (read_pairs()); a sample holds one or more whole pairs. The chosen
// and the rejected answer of a pair are adjacent segments, each with its prompt and positions from 0.
class PairSamples final : public SampleStream {
 public:
  PairSamples(std::shared_ptr<const ChatStore> store, const ChatLayout& layout);
  int64_t count() const override { return spread_.samples(); }
  Sample sample(int64_t i) const override;
  std::string origin(int64_t i) const override;
  int64_t token_count() const override { return store_->tokens(); }
  bool ragged() const override { return !layout_.pack; }
  PairSet pairs() const override { return pairs_; }

 private:
  std::shared_ptr<const ChatStore> store_;
  ChatLayout layout_;
  ChatSpread spread_;
  PairSet pairs_;
};

}  // namespace ravine

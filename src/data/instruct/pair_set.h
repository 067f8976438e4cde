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

// Reads preference pairs. In the store, conversation 2p is the chosen answer of pair p, and 2p + 1 the rejected one.
// options.longest is the limit of each of the two (TRL's max_length). Longer ones are cut at the end (TRL's
// keep_start), or with TooLong::drop their pair is dropped. A pair whose prompt reaches the limit is dropped and
// counted as answer_behind. A pair with equal answers is dropped and counted as without_answer.
// A fault of a record is a UserError that names file and record; so is a set without any remaining pair.
ChatSet read_pairs(const std::vector<std::string>& files, const Tokenizer& tokenizer, const PairEncoder& encoder,
                   const ChatSetOptions& options);
// "100 pairs, 21234 tokens (71 % learned), 12 cut, 3 left out: ..."
std::string pair_counts_text(const ChatCounts& counts);
// A warning if answers are equal, or many pairs are dropped; else "".
std::string pair_counts_warning(const ChatCounts& counts);

// True if the first record of a file holds lists of messages. A record that is not a preference is a UserError.
bool holds_conversations_of_preferences(const std::string& file);

// Samples of whole pairs: chosen and rejected are adjacent segments with positions from 0.
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

// Reads a set of preferences: records, encoded by all cores, cut or left out where they do not fit; and the samples made of it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/instruct/chat_set.h"
#include "data/instruct/chat_store.h"
#include "data/instruct/preference.h"
#include "data/stream.h"

namespace ravine {

// The pairs of a store are its conversations 2p, the chosen, and 2p + 1, the rejected. options.longest is of each of the two
// (TRL's max_length): longer ones are cut behind it (TRL's keep_start), or with TooLong::drop their pair is left out; so is a
// pair whose prompt alone is as long (counted as answer_behind), and one whose answers are the same ids (without_answer). What
// a record has wrong is a UserError naming file and record, as is a set of which nothing is left.
ChatSet read_pairs(const std::vector<std::string>& files, const Tokenizer& tokenizer, const PairEncoder& encoder,
                   const ChatSetOptions& options);
std::string pair_counts_text(const ChatCounts& counts);     // "100 pairs, 21234 tokens (71 % learned), 12 cut, 3 left out: ..."
std::string pair_counts_warning(const ChatCounts& counts);  // where answers are the same, or much is left out; else ""

// Whether the first record of a file holds lists of messages; one that is no preference is a UserError.
bool holds_conversations_of_preferences(const std::string& file);

// A sample holds whole pairs, chosen and rejected side by side, each a segment of its own with positions from 0.
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

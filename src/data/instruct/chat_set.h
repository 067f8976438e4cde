// Reads a set of conversations: encodes the records on all cores, and cuts or drops those that are too long. All drops
// are counted.
#pragma once
#include <functional>
#include <string>

#include "config/config.h"
#include "data/instruct/chat_store.h"

namespace ravine {

struct ChatSetOptions {
  RecordFormat format = RecordFormat::automatic;        // automatic: detected from the first record of each file
  int64_t longest = DataOptions().sequence_length + 1;  // largest number of tokens of a conversation
  TooLong too_long = TooLong::cut;                      // what happens to longer conversations
  int64_t vocabulary = 0;                               // ids must be below it; 0: the tokenizer's size
  // Share of the conversations for the second store, selected by a hash of their record.
  double held_out = 0;
  // Called on the calling thread from time to time; may be empty.
  std::function<void(const TokenizeProgress&)> progress;
  // Largest data.sequence_length of the model; 0: no limit. Used in advice.
  int64_t positions = 0;
};

// Up to this share of dropped conversations there is no warning: single records without an answer are usual, one in
// twenty is not.
inline constexpr double kFewLeftOut = 0.05;

struct ChatCounts {
  int64_t records = 0;               // records read
  int64_t cut = 0;                   // kept without their end
  int64_t too_long = 0;              // dropped (TooLong::drop)
  int64_t without_answer = 0;        // dropped: there is nothing to learn
  int64_t answer_behind = 0;         // dropped: all learned tokens are after the cut
  int64_t tokens = 0, learned = 0;   // of the kept conversations
  std::string first_without_answer;  // place of the first one; empty: none, or unknown
  // Tokens of the longest among too_long and answer_behind; 0: none, or unknown.
  int64_t longest_left_out = 0;
  int64_t left_out() const { return too_long + without_answer + answer_behind; }
  // Returns a warning if more than kFewLeftOut of the conversations are dropped: "400 of 1000 conversations (40 %) are
  // left out: 300 too long, ..; <advice>"; else "".
  std::string warning() const;
  std::string text() const;  // "1000 conversations, 212345 tokens (71 % learned), 12 cut, 3 left out: ..."
  // Returns advice if all conversations are dropped because they are too long: "the longest has 213 tokens: set
  // data.sequence_length=212". The length is at most `positions` (0: no limit). "" if the length would not be above
  // `had`.
  std::string longer_advice(int64_t had, int64_t positions) const;
};

struct ChatSet {
  ChatStore train, held_out;
  ChatCounts counts;
  ChatFormat format = ChatFormat::alpaca;  // of the last file
};

// Reads and encodes the conversations; returns when all are complete. Runs in parallel_for. A fault of a record is a
// UserError that names file and record; so are a set without any remaining conversation, and an id at or above the
// vocabulary. With held_out above 0, both stores get at least one conversation.
ChatSet read_chats(const std::vector<std::string>& files, const Tokenizer& tokenizer, const ChatEncoder& encoder,
                   const ChatSetOptions& options);

// Returns the threshold of hashes: hashes below it are held out. The share is met as far as at least one conversation
// is on either side. If this is impossible, a UserError names `where`.
uint64_t held_out_threshold(const std::vector<uint64_t>& hashes, double share, const std::string& where);

// Returns the format of a file's first record; nothing if the record is not a conversation, or the file holds no JSON
// records.
std::optional<ChatFormat> detect_chat_file(const std::string& path, const std::string& text_key);

}  // namespace ravine

// Reads a set of conversations: encodes the records on all cores, and cuts or drops those that are too long. All drops
// are counted.
#pragma once
#include <functional>
#include <string>

#include "config/config.h"
#include "data/instruct/chat_store.h"

namespace ravine {

// The settings of read_chats() and read_pairs().
struct ChatSetOptions {
  RecordFormat format = RecordFormat::automatic;        // automatic: detected from the first record of each file
  int64_t longest = DataOptions().sequence_length + 1;  // largest number of tokens of a conversation
  TooLong too_long = TooLong::cut;                      // what happens to longer conversations
  int64_t vocabulary = 0;                               // ids must be below it; 0: the tokenizer's size
  // Share of the conversations that is held out for validation (ChatSet::held_out), selected by a hash of their record.
  // 0: none.
  double held_out = 0;
  // Called on the calling thread from time to time; may be empty.
  std::function<void(const TokenizeProgress&)> progress;
  // Largest data.sequence_length that the model allows; 0: no limit. Used only in the advice of messages.
  int64_t positions = 0;
};

// The share of dropped conversations above which a warning is logged. Single records without an answer are usual, one
// in twenty is not.
inline constexpr double kFewLeftOut = 0.05;

// The counts of read_chats() and read_pairs(): the records that were read, cut and dropped.
struct ChatCounts {
  int64_t records = 0;               // records read
  int64_t cut = 0;                   // conversations that were cut at the length limit and kept
  int64_t too_long = 0;              // conversations dropped because they are too long (TooLong::drop)
  int64_t without_answer = 0;        // conversations dropped because they have nothing to learn
  int64_t answer_behind = 0;         // conversations dropped because all learned tokens are after the length limit
  int64_t tokens = 0, learned = 0;   // tokens of the kept conversations; tokens among them that are learned
  std::string first_without_answer;  // place of the first record without an answer; empty: none, or unknown
  // Number of tokens of the longest conversation in too_long and answer_behind; 0: none, or unknown.
  int64_t longest_left_out = 0;
  int64_t left_out() const { return too_long + without_answer + answer_behind; }
  // Returns a warning if more than the share kFewLeftOut of the conversations is dropped: "400 of 1000 conversations
  // (40 %) are left out: 300 too long, ..; <advice>"; else "".
  std::string warning() const;
  // Returns the counts as text: "1000 conversations, 212345 tokens (71 % learned), 12 cut, 3 left out: ..."
  std::string text() const;
  // Returns the advice of a message that all conversations are dropped because they are too long: "the longest has 213
  // tokens: set data.sequence_length=212". The advised length is at most `positions` (0: no limit). "" if it would not
  // be above `had`, the present data.sequence_length.
  std::string longer_advice(int64_t had, int64_t positions) const;
};

// The result of read_chats() and read_pairs(): the encoded conversations for training and validation.
struct ChatSet {
  ChatStore train, held_out;
  ChatCounts counts;
  ChatFormat format = ChatFormat::alpaca;  // the format of the last file
};

// Reads and encodes the conversations of files, on all cores (parallel_for). UserErrors: an invalid record (with file
// and record), an id at or above the vocabulary, and a set of which all conversations are dropped. With
// options.held_out above 0, each of the two stores of the result gets at least one conversation.
ChatSet read_chats(const std::vector<std::string>& files, const Tokenizer& tokenizer, const ChatEncoder& encoder,
                   const ChatSetOptions& options);

// Returns the threshold that holds out a share of conversations: those whose hash is below it. At least one hash is
// below the threshold and at least one is not, whatever the share. If this is impossible, a UserError names `where`.
uint64_t held_out_threshold(const std::vector<uint64_t>& hashes, double share, const std::string& where);

// Returns the conversation format of a file's first record; nothing if the record is not a conversation, if
// it has a text under `text_key`, or if the file holds no JSON records.
std::optional<ChatFormat> detect_chat_file(const std::string& path, const std::string& text_key);

}  // namespace ravine

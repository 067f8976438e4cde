// Reads a set of conversations: records, encoded by all cores, cut or left out where they do not fit; nothing is lost silently.
#pragma once
#include <functional>
#include <string>

#include "config/config.h"
#include "data/instruct/chat_store.h"

namespace ravine {

struct ChatSetOptions {
  RecordFormat format = RecordFormat::automatic;        // automatic: the first record of each file tells
  int64_t longest = DataOptions().sequence_length + 1;  // tokens of a conversation at most
  TooLong too_long = TooLong::cut;                      // of longer ones
  int64_t vocabulary = 0;                               // ids must be below it; 0: the tokenizer's size
  double held_out = 0;  // share of the conversations that go to the second store, by a hash of their record alone
  std::function<void(const TokenizeProgress&)> progress;  // called on the calling thread now and then; may be empty
  int64_t positions = 0;  // data.sequence_length can be no more, as the model has it; 0: no limit. For what is advised
};

// Up to this share of conversations may be left out without a warning: stray records that have no answer are usual, one in
// twenty is not.
inline constexpr double kFewLeftOut = 0.05;

struct ChatCounts {
  int64_t records = 0;               // read
  int64_t cut = 0;                   // kept, without their end
  int64_t too_long = 0;              // left out (TooLong::drop)
  int64_t without_answer = 0;        // left out: nothing to learn in them
  int64_t answer_behind = 0;         // left out: all that is to be learned lies behind the cut
  int64_t tokens = 0, learned = 0;   // of what is kept
  std::string first_without_answer;  // its place; empty: none, or not known
  int64_t longest_left_out = 0;      // tokens of the longest of too_long and answer_behind; 0: none, or not known
  int64_t left_out() const { return too_long + without_answer + answer_behind; }
  // "400 of 1000 conversations (40 %) are left out: 300 too long, ..; <what to do>" where that is more than kFewLeftOut of
  // them; else "".
  std::string warning() const;
  std::string text() const;  // "1000 conversations, 212345 tokens (71 % learned), 12 cut, 3 left out: ..."
  // Where all are left out since they are too long: "the longest has 213 tokens: set data.sequence_length=212", at most
  // `positions` (0: no limit), if that reaches beyond `had`; "" where no length is known to help.
  std::string longer_advice(int64_t had, int64_t positions) const;
};

struct ChatSet {
  ChatStore train, held_out;
  ChatCounts counts;
  ChatFormat format = ChatFormat::alpaca;  // of the last file
};

// Blocks until done; runs in parallel_for. What a record has wrong is a UserError naming file and record, as is a set of which
// nothing is left, and an id at or above the vocabulary. With held_out above 0 at least one conversation is held out and one is
// not.
ChatSet read_chats(const std::vector<std::string>& files, const Tokenizer& tokenizer, const ChatEncoder& encoder,
                   const ChatSetOptions& options);

// Hashes below the result are held out: the share asked for, but at least one conversation on either side (else a UserError
// naming `where`).
uint64_t held_out_threshold(const std::vector<uint64_t>& hashes, double share, const std::string& where);

// The form of a file's first record; nothing if it is no conversation, or if the file holds no JSON records.
std::optional<ChatFormat> detect_chat_file(const std::string& path, const std::string& text_key);

}  // namespace ravine

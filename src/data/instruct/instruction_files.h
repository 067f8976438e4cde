// Reads instruction files as ModelLink and `ravine preprocess --handler` write them: X_packed_input_ids_document,
// X_packed_attention_mask_document and X_packed_labels_document, three parallel .bin/.idx pairs with one sequence per
// conversation. Source: modellink/data/mtf_dataset.py.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/indexed/indexed_file.h"
#include "data/instruct/chat_set.h"
#include "data/instruct/sample_layout.h"
#include "data/sample.h"
#include "data/stream.h"

namespace ravine {

// True if `path` names instruction files: the three token file pairs X_packed_input_ids_document,
// X_packed_attention_mask_document and X_packed_labels_document. `path` is X, or the name of one of the pairs (with or
// without .bin or .idx), and at least one of the files exists. prefix: if not null, receives X. False if X itself
// exists as a file, folder or token files.
bool is_instruction_prefix(const std::string& path, std::string* prefix = nullptr);

// Returns X as the path of a data source: X itself, or the name of its first pair if other files have the name X.
std::string instruction_source(const std::string& prefix);

// The conversations in instruction files of several prefixes, concatenated and mapped into memory. Const members are
// thread-safe.
class InstructionFiles {
 public:
  // Opens the files of all prefixes (paths of sources). vocabulary: ids and labels must be below it. A missing or
  // damaged file, and three pairs with different sequences, are UserErrors that name the file.
  InstructionFiles(const std::vector<std::string>& prefixes, int64_t vocabulary);

  int64_t count() const { return parts_.back().end; }
  int64_t tokens() const { return tokens_; }
  int64_t length(int64_t i) const;
  std::string where(int64_t i) const;  // "X_packed_input_ids_document sequence 3", from 0 as in Megatron

  struct Row {
    std::vector<int32_t> ids, labels;  // n - 1 of each: labels[t] is the token that ids[t] predicts, or kIgnored
    TokenSpan seen;                    // columns whose attention mask is 1; other columns predict nothing
  };
  // Returns the first `most` tokens (at least 2) of conversation i. An id or a label outside the vocabulary, and a mask
  // whose 1s are not adjacent, are UserErrors.
  Row row(int64_t i, int64_t most) const;

 private:
  struct Part {
    std::unique_ptr<IndexedFile> ids, mask, labels;
    int64_t begin = 0, end = 0;  // range of conversations
  };
  const Part& part(int64_t i) const;
  std::vector<Part> parts_;
  int64_t vocabulary_, tokens_ = 0;
};

// The result of choose_instructions(): the conversations for training and validation.
struct InstructionChoice {
  std::vector<int64_t> train, held_out;  // indices of conversations in the InstructionFiles
  ChatCounts counts;
  // The last id of all chosen conversations (before a cut), if it is the same in all and is learned; else empty.
  std::optional<int32_t> end;
};

// Selects the conversations of instruction files for training and validation; every conversation is read once. A
// conversation is dropped if it has no label within options.longest tokens, or, with TooLong::drop, if it has more
// tokens. A hash of the ids selects the share options.held_out. A UserError if no conversation remains.
InstructionChoice choose_instructions(const InstructionFiles& files, const ChatSetOptions& options);

// Throws a UserError that no conversation has a label to learn. It advises a data.sequence_length that would include a
// label, if there is one. where: the files.
[[noreturn]] void refuse_nothing_learned(const ChatCounts& counts, const std::string& where, const ChatSetOptions& options);

// The token with which a model trained on instruction files ends its answers.
struct InstructionEnd {
  std::optional<int32_t> token;  // empty: none is known
  std::string note;              // a line for the log on the token, or on its absence; empty without a tokenizer
};
// Returns the end token of answers: choice.end, the common last id of the conversations, if it is a special token of
// the tokenizer. If `tokenizer` is null, the tokenizer is opened at `path`, if one exists there.
InstructionEnd instruction_end(const InstructionChoice& choice, const Tokenizer* tokenizer, const std::string& path);

// The samples made of chosen conversations of instruction files. A conversation with more than layout.columns + 1
// tokens is cut. Each conversation is a separate segment with positions from 0.
class InstructionSamples final : public SampleStream {
 public:
  InstructionSamples(std::shared_ptr<const InstructionFiles> files, std::vector<int64_t> chosen, const ChatLayout& layout);
  int64_t count() const override { return spread_.samples(); }
  Sample sample(int64_t i) const override;
  std::string origin(int64_t i) const override;
  int64_t token_count() const override { return tokens_; }
  bool ragged() const override { return !layout_.pack; }

 private:
  std::shared_ptr<const InstructionFiles> files_;
  std::vector<int64_t> chosen_;
  ChatLayout layout_;
  ChatSpread spread_;
  int64_t tokens_ = 0;
};

}  // namespace ravine

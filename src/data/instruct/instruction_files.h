// Instruction files as ModelLink and `ravine preprocess --handler` write them: X_packed_input_ids_document,
// X_packed_attention_mask_document and X_packed_labels_document, three .bin/.idx side by side with one sequence per
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

// Whether `path` is X, or the name of one of the three (with or without .bin or .idx), and one of their files is there; then X.
// What exists under the name X itself is not meant.
bool is_instruction_prefix(const std::string& path, std::string* prefix = nullptr);

// X as the name of a source: X itself, or where other files are called so, the name of its first list.
std::string instruction_source(const std::string& prefix);

// The conversations of some X, one X behind the other; mapped. Const members may be called by many threads.
class InstructionFiles {
 public:
  // Of names of sources. A file that is missing or broken, and three that do not have the same sequences, are UserErrors naming it. ids are in [0,
  // vocabulary).
  InstructionFiles(const std::vector<std::string>& prefixes, int64_t vocabulary);

  int64_t count() const { return parts_.back().end; }
  int64_t tokens() const { return tokens_; }
  int64_t length(int64_t i) const;
  std::string where(int64_t i) const;  // "X_packed_input_ids_document sequence 3", from 0 as Megatron counts

  struct Row {
    std::vector<int32_t> ids, labels;  // n - 1 of each: labels[t] is what ids[t] predicts, or kIgnored
    TokenSpan seen;                    // columns whose attention mask is 1; others predict nothing
  };
  // The first `most` tokens (at least 2) of conversation i. An id or a label beyond the vocabulary, and a mask whose ones do
  // not stand side by side, are UserErrors.
  Row row(int64_t i, int64_t most) const;

 private:
  struct Part {
    std::unique_ptr<IndexedFile> ids, mask, labels;
    int64_t begin = 0, end = 0;  // conversations
  };
  const Part& part(int64_t i) const;
  std::vector<Part> parts_;
  int64_t vocabulary_, tokens_ = 0;
};

struct InstructionChoice {
  std::vector<int64_t> train, held_out;  // conversations
  ChatCounts counts;
  std::optional<int32_t>
      end;  // the last id of every conversation chosen, also of one that is cut, when that is one and it is learned
};

// Looks at everything once. Left out is what has no label that counts, also behind a cut, and with drop_longer what is longer
// than `longest` tokens. Held out is by a hash of the ids. Nothing left is a UserError.
InstructionChoice choose_instructions(const InstructionFiles& files, const ChatSetOptions& options);

// The UserError of files of which no conversation has a label to learn, with the length that would reach one.
[[noreturn]] void refuse_nothing_learned(const ChatCounts& counts, const std::string& where, const ChatSetOptions& options);

// The token that a model trained on them ends answers with: the common end, if it is special to the tokenizer (opened at `path`
// when null and there is one). Otherwise the note says so.
struct InstructionEnd {
  std::optional<int32_t> token;
  std::string note;
};
InstructionEnd instruction_end(const InstructionChoice& choice, const Tokenizer* tokenizer, const std::string& path);

// Chosen conversations as samples; longer ones are cut. Each is a segment of its own with positions from 0.
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

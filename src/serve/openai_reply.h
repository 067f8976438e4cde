// Replies of OpenAI's API, whole or as a stream of server-sent events.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "infer/batcher.h"
#include "text/tokenizer.h"

namespace ravine {

// What single tokens are as text: with the blank that a word begins with, but that of the first word of a text where the
// tokenizer leaves it out there.
class TokenTexts {
 public:
  explicit TokenTexts(const Tokenizer& tokenizer);
  std::string operator()(int32_t id, bool first) const;  // U+FFFD for bytes that are no character by themselves

 private:
  std::string behind(std::span<const int32_t> before, int32_t id) const;
  const Tokenizer* tokenizer_;
  std::vector<int32_t> before_;  // ids of some text
};

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0;
};

// One reply: what all its parts say.
class Reply {
 public:
  // logprobs: whether tokens are told with theirs.
  Reply(std::string model, bool chat, bool logprobs, const Tokenizer& tokenizer, size_t choices);

  // Of a stream, each an event: the first of a choice, a piece, and the usage at its end.
  std::string first(size_t choice) const;
  std::string piece(size_t choice, const std::string& text, const std::vector<NewToken>& tokens, std::optional<Finish> finish,
                    bool usage);
  std::string last(const Usage& usage) const;
  static std::string done() { return "data: [DONE]\n\n"; }

  // The whole.
  void add(size_t choice, const std::string& text, const std::vector<NewToken>& tokens, std::optional<Finish> finish);
  std::string whole(const Usage& usage) const;

 private:
  struct Choice {
    std::string text;
    std::vector<NewToken> tokens;
    std::optional<Finish> finish;
    size_t offset = 0;   // of the next token in the text
    bool begun = false;  // a token was told
  };
  Json object(bool chunk) const;
  Json log_probabilities(Choice& choice, const std::vector<NewToken>& tokens) const;
  std::string model_, id_;
  int64_t created_;
  bool chat_, logprobs_;
  TokenTexts texts_;
  mutable std::vector<Choice> choices_;
};

}  // namespace ravine

// Replies of OpenAI's API, whole or as a stream of server-sent events.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "infer/batcher.h"
#include "text/tokenizers/token_bytes.h"

namespace ravine {

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0;
};

// One reply: what all its parts say.
class Reply {
 public:
  // logprobs: whether tokens are told with theirs.
  Reply(std::string model, bool chat, bool logprobs, const Tokenizer& tokenizer, size_t choices);

  // Before the first piece of a choice: what its text follows.
  void begins(size_t choice, std::span<const int32_t> prompt);

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
    std::optional<TokenPlaces> places;  // of tokens in the text, where they are told
    bool at_start = false;              // no text stands before the next token
    bool first = true;                  // no token of text was told yet
  };
  Json object(bool chunk) const;
  Json log_probabilities(Choice& choice, const std::vector<NewToken>& tokens, bool end) const;
  std::string model_, id_;
  int64_t created_;
  bool chat_, logprobs_;
  TokenBytes tokens_;
  mutable std::vector<Choice> choices_;
};

}  // namespace ravine

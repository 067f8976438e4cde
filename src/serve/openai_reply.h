// Replies of OpenAI's API, complete or as a stream of server-sent events.
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

// Writes one reply.
class Reply {
 public:
  // logprobs: include the log-probabilities of tokens.
  Reply(std::string model, bool chat, bool logprobs, const Tokenizer& tokenizer, size_t choices);

  // Sets the prompt of a choice; called before its first piece.
  void begins(size_t choice, std::span<const int32_t> prompt);

  // Events of a stream. first: the beginning of a choice; empty for completions.
  // piece: new text and tokens of a choice; usage: the event has a field "usage", which is null.
  std::string first(size_t choice) const;
  std::string piece(size_t choice, const std::string& text, const std::vector<NewToken>& tokens, std::optional<Finish> finish,
                    bool usage);
  // The event with the usage, at the end of a stream.
  std::string last(const Usage& usage) const;
  static std::string done() { return "data: [DONE]\n\n"; }

  // A complete reply: add() collects pieces, whole() returns the reply.
  void add(size_t choice, const std::string& text, const std::vector<NewToken>& tokens, std::optional<Finish> finish);
  std::string whole(const Usage& usage) const;

 private:
  struct Choice {
    std::string text;
    std::vector<NewToken> tokens;
    std::optional<Finish> finish;
    std::optional<TokenPlaces> places;  // positions of tokens in the text, if they are reported
    bool at_start = false;              // there is no text before the next token
    bool first = true;                  // no token with text was written yet
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

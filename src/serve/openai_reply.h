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

// The field "usage" of a reply: numbers of tokens.
struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0;
};

// Makes the reply to one request: either one complete JSON body, or a stream of server-sent events.
class Reply {
 public:
  // model: its name in the reply. chat: true for chat completions, false for completions. logprobs: the reply has the
  // log-probabilities of tokens. choices: number of choices. The tokenizer must outlive this object.
  Reply(std::string model, bool chat, bool logprobs, const Tokenizer& tokenizer, size_t choices);

  // Sets the prompt of a choice. Called before the first piece() or add() of this choice.
  void begins(size_t choice, std::span<const int32_t> prompt);

  // Returns the event that begins a choice in a stream; "" for completions.
  std::string first(size_t choice) const;
  // Returns the event with the new text and tokens of a choice in a stream. usage: true adds the field "usage": null.
  std::string piece(size_t choice, const std::string& text, const std::vector<NewToken>& tokens, std::optional<Finish> finish,
                    bool usage);
  // Returns the event with the numbers of tokens, at the end of a stream.
  std::string last(const Usage& usage) const;
  static std::string done() { return "data: [DONE]\n\n"; }

  // Adds new text and tokens of a choice to the complete reply, which whole() returns.
  void add(size_t choice, const std::string& text, const std::vector<NewToken>& tokens, std::optional<Finish> finish);
  std::string whole(const Usage& usage) const;

 private:
  struct Choice {
    std::string text;
    std::vector<NewToken> tokens;
    std::optional<Finish> finish;
    std::optional<TokenOffsets> token_offsets;  // positions of tokens in the text, if they are reported
    bool at_start = false;                      // there is no text before the next token
    bool first = true;                          // no token with text was written yet
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

// Requests of OpenAI's API, /v1/completions and /v1/chat/completions: https://platform.openai.com/docs/api-reference. Every field
// is honoured or refused by name.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "infer/generation_config.h"

namespace ravine {

// What a client is told: a status and OpenAI's error object.
struct ApiError : std::runtime_error {
  ApiError(int status, const std::string& message, std::string param = "", std::string code = "")
      : std::runtime_error(message), status(status), param(std::move(param)), code(std::move(code)) {}
  int status;
  std::string param, code;  // "": null
};
std::string error_body(const ApiError& error);

struct ApiRequest {
  std::string model;
  // Of completions: texts, or ids. Of chats: messages, as a template takes them (text/chat/messages.h).
  std::vector<std::variant<std::string, std::vector<int32_t>>> prompts;
  Json messages;
  std::optional<int64_t> max_tokens;
  int64_t n = 1;
  std::optional<uint64_t> seed;
  bool stream = false, usage = false;  // usage: a last chunk says it
  std::vector<std::string> stops;
  std::vector<int32_t> stop_ids;
  bool logprobs = false;
  int64_t alternatives = 0;  // at each token
  // What the request says of sampling; the rest is the model's.
  std::optional<double> temperature, top_p, min_p, typical_p, repetition_penalty;
  std::optional<int64_t> top_k, no_repeat_ngram;
  double frequency_penalty = 0, presence_penalty = 0;
  std::vector<TokenBias> bias;
};

// body: what the client has sent. chat: of /v1/chat/completions. Anything wrong is an ApiError of status 400.
ApiRequest parse_api_request(const std::string& body, bool chat);

// The rules that the request and the model's defaults come to.
Processing processing_of(const ApiRequest& request, const GenerationDefaults& defaults);
// Whether tokens are drawn: unless the temperature is 0.
bool draws(const ApiRequest& request);

}  // namespace ravine

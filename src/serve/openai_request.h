// Reads requests of OpenAI's API, /v1/completions and /v1/chat/completions:
// https://platform.openai.com/docs/api-reference. Every field is used, or refused by name.
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

// An error that is sent to the client: a status, and OpenAI's error object.
struct ApiError : std::runtime_error {
  ApiError(int status, const std::string& message, std::string param = "", std::string code = "")
      : std::runtime_error(message), status(status), param(std::move(param)), code(std::move(code)) {}
  int status;
  std::string param, code;  // "": null
};
// Returns the JSON body of the answer with an error: OpenAI's error object.
std::string error_body(const ApiError& error);

// A parsed request: the result of parse_api_request().
struct ApiRequest {
  std::string model;  // "": the request names no model
  // Completions: texts or ids. Chats: messages in the form for chat templates (text/chat/messages.h).
  std::vector<std::variant<std::string, std::vector<int32_t>>> prompts;
  Json messages;
  std::optional<int64_t> max_tokens;
  int64_t n = 1;
  std::optional<uint64_t> seed;
  bool stream = false, usage = false;  // usage: a stream ends with an event with the numbers of tokens
  std::vector<std::string> stops;
  std::vector<int32_t> stop_ids;
  bool logprobs = false;
  int64_t alternatives = 0;  // number of most likely tokens to report for each token
  // Options of sampling in the request; options that are not set have the model's defaults.
  std::optional<double> temperature, top_p, min_p, typical_p, repetition_penalty;
  std::optional<int64_t> top_k, no_repeat_ngram;
  double frequency_penalty = 0, presence_penalty = 0;
  std::vector<TokenBias> bias;
};

// Parses the body of a request. chat: a request of /v1/chat/completions. Any fault is an ApiError of status 400.
ApiRequest parse_api_request(const std::string& body, bool chat);

// Returns the sampling settings of a request: its own options, and the model's defaults for options that are not set.
Processing processing_of(const ApiRequest& request, const GenerationDefaults& defaults);
// True if the tokens of the answer are drawn at random: if the temperature of the request is not 0.
bool draws(const ApiRequest& request);

}  // namespace ravine

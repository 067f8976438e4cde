// The routes of the server: OpenAI's API, /health, /metrics, and a chat page at /.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "infer/generation_config.h"
#include "serve/desk.h"
#include "serve/http.h"
#include "serve/openai_request.h"
#include "text/chat/chat_prompt.h"

namespace ravine {

// A model as clients see it: a loaded model, perhaps with an adapter, and its tokenizer.
struct ServedPromptModel {
  std::string name;
  const LoadedModel* loaded = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const ChatPrompt* chat = nullptr;  // null: the model has no chat template
  const GenerationDefaults* defaults = nullptr;
};

// The settings of a Service.
struct ServiceRules {
  std::string key;  // API key that clients must send; "": no key is needed
  // Origins of web pages whose scripts may send requests (CORS); "*": all origins; empty: none.
  std::vector<std::string> origins;
  std::function<void(const std::string& line)> log;  // called with one line per request
};

// Answers the HTTP requests of all routes, with the help of a Desk.
class Service {
 public:
  // The first model answers requests that name no model. All arguments must outlive this object.
  Service(Desk& desk, std::vector<ServedPromptModel> models, ServiceRules rules, const GenerateOptions& shared);
  // Returns the answer to a request, with a status of 4xx or 5xx if it fails. Thread-safe.
  HttpAnswer answer(HttpExchange& exchange);
  // Returns the JSON body of an error, for HttpServer.
  static std::string refusal(int status, const std::string& message);

 private:
  struct PendingRequest;
  struct RequestLog;
  HttpAnswer route(HttpExchange& exchange, const std::shared_ptr<RequestLog>& request_log);
  HttpAnswer complete(HttpExchange& exchange, bool chat, const std::shared_ptr<RequestLog>& request_log);
  void log_request(const RequestLog& request_log) const;
  void allow_origin(const HttpExchange& exchange, HttpAnswer& answer) const;
  HttpAnswer stream(std::shared_ptr<PendingRequest> pending);
  HttpAnswer whole(PendingRequest& pending, HttpExchange& exchange);
  const ServedPromptModel& model_named(const std::string& name) const;
  std::vector<std::vector<int32_t>> prompts_of(const ApiRequest& request, const ServedPromptModel& model, bool chat) const;
  GenerateOptions options_of(const ApiRequest& request, const ServedPromptModel& model, bool chat,
                             const std::vector<std::vector<int32_t>>& prompts) const;
  void check_key(const std::string& authorization) const;
  Json model_object(const ServedPromptModel& model) const;
  std::string metrics() const;
  void count(const std::string& path, int status);

  Desk& desk_;
  std::vector<ServedPromptModel> models_;
  ServiceRules rules_;
  const GenerateOptions& shared_;
  int64_t started_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;  // number of requests by route and status
};

}  // namespace ravine

#include "serve/service.h"

#include <algorithm>
#include <ctime>
#include <random>

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/cut_text.h"
#include "base/text.h"
#include "infer/generator.h"
#include "serve/openai_reply.h"
#include "serve/page.h"

namespace ravine {
namespace {

constexpr double kLook = 0.1;  // seconds between two checks of the connection

uint64_t random_seed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// Compares two texts in a time that does not depend on the position of a difference.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned differ = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i) differ |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  return differ == 0 && !b.empty();
}

HttpAnswer as_error(const ApiError& e) {
  return {.status = e.status,
          .type = "application/json",
          .body = error_body(e),
          .headers = {},
          .stream = {},
          .probe = {},
          .closes = false};
}
int status_of(const AnswerPiece& failed) { return failed.late ? 503 : 500; }
HttpAnswer as_json(std::string body) {
  return {.status = 200,
          .type = "application/json",
          .body = std::move(body),
          .headers = {},
          .stream = {},
          .probe = {},
          .closes = false};
}

}  // namespace

// The data of a request for the log.
struct Service::RequestLog {
  std::string method, path, error;
  int status = 0;
  Usage usage;
  double began = 0;
};

// A request that the desk is answering.
struct Service::PendingRequest {
  ~PendingRequest() {
    if (answers) answers->leave();
  }
  ApiRequest request;
  std::shared_ptr<Answers> answers;
  std::unique_ptr<Reply> reply;
  size_t choices = 0;
  std::shared_ptr<RequestLog> request_log;
  Usage& usage() const { return request_log->usage; }
};

Service::Service(Desk& desk, std::vector<ServedPromptModel> models, ServiceRules rules, const GenerateOptions& shared)
    : desk_(desk), models_(std::move(models)), rules_(std::move(rules)), shared_(shared), started_(std::time(nullptr)) {}

std::string Service::refusal(int status, const std::string& message) { return error_body(ApiError(status, message)); }

HttpAnswer Service::answer(HttpExchange& exchange) {
  HttpAnswer answer;
  auto request_log = std::make_shared<RequestLog>();
  request_log->method = exchange.method, request_log->path = exchange.path, request_log->began = seconds_now();
  auto fail = [&](const ApiError& e) { answer = as_error(e), request_log->error = e.what(); };
  try {
    answer = route(exchange, request_log);
  } catch (const ApiError& e) {
    fail(e);
  } catch (const UserError& e) {
    fail(ApiError(400, e.what()));
  } catch (const std::exception& e) {
    fail(ApiError(500, e.what()));
  }
  if (exchange.method == "POST" && answer.status >= 400) answer.closes = true;  // the body may not have been read
  request_log->status = answer.status;
  allow_origin(exchange, answer);
  count(exchange.path, answer.status);
  if (!answer.stream) return log_request(*request_log), answer;
  answer.stream = [this, request_log, write = std::move(answer.stream)](const HttpSend& send) {
    write(send);
    log_request(*request_log);
  };
  return answer;
}

// Logs a request. Successful checks of health and metrics are not logged, because they would hide the other requests.
void Service::log_request(const RequestLog& t) const {
  if (!rules_.log || (t.status < 400 && (t.path == "/health" || t.path == "/metrics"))) return;
  std::string line = fmt::format("{} {} {}", t.method, escaped(cut_text(t.path, 200)), t.status);
  if (t.usage.prompt_tokens > 0)
    line += fmt::format(", {} tokens in, {} out", t.usage.prompt_tokens, t.usage.completion_tokens);
  line += fmt::format(", {:.3f} s", seconds_now() - t.began);
  rules_.log(t.error.empty() ? line : line + ": " + escaped(cut_text(t.error, 300)));
}

// CORS: https://fetch.spec.whatwg.org/#http-cors-protocol.
void Service::allow_origin(const HttpExchange& exchange, HttpAnswer& answer) const {
  const auto& all = rules_.origins;
  if (all.empty()) return;
  const bool any = std::find(all.begin(), all.end(), "*") != all.end();
  if (!any) answer.headers.emplace_back("Vary", "Origin");
  if (!any && std::find(all.begin(), all.end(), exchange.origin) == all.end()) return;
  answer.headers.emplace_back("Access-Control-Allow-Origin", any ? "*" : exchange.origin);
  if (exchange.method != "OPTIONS") return;
  answer.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  answer.headers.emplace_back("Access-Control-Allow-Headers", "*, Authorization, Content-Type");
  answer.headers.emplace_back("Access-Control-Max-Age", "600");
}

HttpAnswer Service::route(HttpExchange& exchange, const std::shared_ptr<RequestLog>& request_log) {
  const std::string& path = exchange.path;
  const bool get = exchange.method == "GET";
  auto only = [&](bool right) {
    if (!right) throw ApiError(405, fmt::format("{} {} is not what is asked here", exchange.method, escaped(path)));
  };
  if (exchange.method == "OPTIONS") {
    only(!rules_.origins.empty());
    return {.status = 204, .type = "text/plain", .body = {}, .headers = {}, .stream = {}, .probe = {}, .closes = false};
  }
  if (path == "/health") {
    only(get);
    if (desk_.closed()) throw ApiError(503, "the server is ending");
    return as_json("{\"status\":\"ok\"}");
  }
  if (path == "/metrics") {
    only(get);
    return {.status = 200,
            .type = "text/plain; version=0.0.4; charset=utf-8",
            .body = metrics(),
            .headers = {},
            .stream = {},
            .probe = {},
            .closes = false};
  }
  if (path == "/") {
    only(get);
    return {.status = 200,
            .type = "text/html; charset=utf-8",
            .body = std::string(kPage),
            .headers = {},
            .stream = {},
            .probe = {},
            .closes = false};
  }
  check_key(exchange.authorization);
  if (path == "/v1/models") {
    only(get);
    Json list = Json::array();
    for (const ServedPromptModel& m : models_) list.push_back(model_object(m));
    return as_json(Json{{"object", "list"}, {"data", list}}.dump());
  }
  if (constexpr std::string_view kOne = "/v1/models/"; path.starts_with(kOne)) {
    only(get);
    return as_json(model_object(model_named(path.substr(kOne.size()))).dump());
  }
  if (path == "/v1/completions" || path == "/v1/chat/completions") {
    only(!get);
    return complete(exchange, path == "/v1/chat/completions", request_log);
  }
  throw ApiError(404, fmt::format("there is nothing at {}", escaped(cut_text(path, 200))), "", "not_found");
}

void Service::check_key(const std::string& authorization) const {
  constexpr std::string_view kScheme = "Bearer ";
  if (rules_.key.empty()) return;
  if (!authorization.starts_with(kScheme) || !same_secret(std::string_view(authorization).substr(kScheme.size()), rules_.key))
    throw ApiError(401, "the API key is missing or wrong: the header is Authorization: Bearer KEY", "", "invalid_api_key");
}

const ServedPromptModel& Service::model_named(const std::string& name) const {
  std::vector<std::string> names;
  for (const ServedPromptModel& m : models_) {
    if (m.name == name) return m;
    names.push_back(m.name);
  }
  throw ApiError(404,
                 fmt::format("no model is called '{}'; there are: {}", escaped(cut_text(name, 80)), fmt::join(names, ", ")),
                 "model", "model_not_found");
}

std::vector<std::vector<int32_t>> Service::prompts_of(const ApiRequest& request, const ServedPromptModel& model,
                                                      bool chat) const {
  if (chat) {
    if (!model.chat)
      throw ApiError(400, "the model has no chat template; start the server with --template chatml, or another name or file",
                     "messages");
    try {
      return {model.chat->ids_of(request.messages)};
    } catch (const jinja::TemplateError& e) {
      throw ApiError(400, fmt::format("the chat template refuses this conversation: {}", e.what()), "messages",
                     "invalid_value");
    }
  }
  std::vector<std::vector<int32_t>> prompts;
  for (const auto& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    prompts.push_back(text ? model.tokenizer->encode(*text, true) : std::get<std::vector<int32_t>>(prompt));
  }
  return prompts;
}

GenerateOptions Service::options_of(const ApiRequest& request, const ServedPromptModel& model, bool chat,
                                    const std::vector<std::vector<int32_t>>& prompts) const {
  constexpr int64_t kOfCompletions = 16;  // OpenAI's default
  const ModelFacts& facts = model.loaded->model->facts();
  GenerateOptions o = shared_;
  o.processing = processing_of(request, *model.defaults);
  for (const TokenBias& b : o.processing.bias)
    if (b.id >= facts.vocabulary)
      throw ApiError(400, fmt::format("'logit_bias': the model has no token {}", b.id), "logit_bias");
  o.sample = draws(request);
  o.seed = request.seed ? *request.seed : random_seed();
  o.alternatives = request.alternatives;
  o.end_ids = model.defaults->end_ids;
  if (chat && model.chat->end_token() < facts.vocabulary) o.end_ids.push_back(model.chat->end_token());
  o.end_ids.insert(o.end_ids.end(), request.stop_ids.begin(), request.stop_ids.end());
  o.max_length = facts.max_positions;
  int64_t longest = 0;
  for (const auto& p : prompts) longest = std::max(longest, static_cast<int64_t>(p.size()));
  const int64_t room = facts.max_positions > 0 ? facts.max_positions - longest : shared_.max_length - longest;
  if (room < 1 || request.max_tokens.value_or(1) > room)
    throw ApiError(400,
                   fmt::format("the model has {} positions: {} of the prompt and {} new ones do not fit", room + longest,
                               longest, request.max_tokens.value_or(1)),
                   room < 1 ? (chat ? "messages" : "prompt") : "max_tokens", "context_length_exceeded");
  o.max_new_tokens = std::min(room, request.max_tokens.value_or(chat ? room : kOfCompletions));
  check_prompts(prompts, facts, o, chat ? "messages" : "prompt");
  return o;
}

HttpAnswer Service::complete(HttpExchange& exchange, bool chat, const std::shared_ptr<RequestLog>& request_log) {
  HttpAnswer refusal;
  if (desk_.closed()) throw ApiError(503, "the server is ending");
  const std::optional<std::string> body = exchange.body(refusal);
  if (!body) return refusal;
  auto pending = std::make_shared<PendingRequest>();
  pending->request_log = request_log;
  pending->request = parse_api_request(*body, chat);
  const ApiRequest& r = pending->request;
  const ServedPromptModel& model = r.model.empty() ? models_[0] : model_named(r.model);
  const std::vector<std::vector<int32_t>> prompts = prompts_of(r, model, chat);
  const GenerateOptions options = options_of(r, model, chat, prompts);
  std::vector<std::string> stops = r.stops.empty() ? model.defaults->stop_texts : r.stops;
  std::vector<Question> questions;
  for (const auto& prompt : prompts) {
    pending->usage().prompt_tokens += static_cast<int64_t>(prompt.size());
    const std::string prompt_name =
        prompts.size() == 1 ? "the request" : fmt::format("prompt {} of the request", &prompt - prompts.data() + 1);
    for (int64_t i = 0; i < r.n; ++i)
      questions.push_back({{model.loaded, options}, questions.size(), prompt_name, prompt, model.tokenizer, stops});
  }
  pending->choices = questions.size();
  pending->reply = std::make_unique<Reply>(model.name, chat, r.logprobs, *model.tokenizer, pending->choices);
  for (size_t i = 0; i < questions.size(); ++i) pending->reply->begins(i, questions[i].prompt);
  pending->answers = desk_.submit(std::move(questions), pending->usage().prompt_tokens);
  if (!pending->answers)
    throw ApiError(503, desk_.closed() ? "the server is ending" : "too many requests are waiting", "", "overloaded");
  return r.stream ? stream(pending) : whole(*pending, exchange);
}

HttpAnswer Service::whole(PendingRequest& pending, HttpExchange& exchange) {
  Usage& usage = pending.usage();
  for (double looked = 0; !pending.answers->over();) {
    if (seconds_now() - looked > kLook) {
      looked = seconds_now();
      if (exchange.gone()) throw ApiError(499, "the client is gone");
    }
    const std::optional<AnswerPiece> piece = pending.answers->wait(kLook);
    if (!piece) continue;
    if (!piece->error.empty()) throw ApiError(status_of(*piece), piece->error);
    usage.completion_tokens += static_cast<int64_t>(piece->tokens.size());
    pending.reply->add(piece->choice, piece->text, piece->tokens, piece->finish);
  }
  return as_json(pending.reply->whole(usage));
}

HttpAnswer Service::stream(std::shared_ptr<PendingRequest> pending) {
  HttpAnswer answer;
  answer.type = "text/event-stream";
  answer.probe = ": \n\n";  // a comment in the format of server-sent events
  answer.stream = [pending](const HttpSend& send) {
    const bool sends_usage = pending->request.usage;
    bool there = true;
    for (size_t i = 0; i < pending->choices && there; ++i)
      if (const std::string first = pending->reply->first(i); !first.empty()) there = send(first);
    while (there && !pending->answers->over()) {
      const std::optional<AnswerPiece> piece = pending->answers->wait(kLook);
      if (!piece) {
        there = send("");
        continue;
      }
      if (!piece->error.empty()) {
        pending->request_log->status = status_of(*piece), pending->request_log->error = piece->error;
        send("data: " + refusal(status_of(*piece), piece->error) + "\n\n");
        break;
      }
      pending->usage().completion_tokens += static_cast<int64_t>(piece->tokens.size());
      if (piece->text.empty() && !piece->finish && !pending->request.logprobs) continue;
      there = send(pending->reply->piece(piece->choice, piece->text, piece->tokens, piece->finish, sends_usage));
    }
    if (there && sends_usage) there = send(pending->reply->last(pending->usage()));
    if (there) send(Reply::done());
    if (!there) pending->request_log->status = 499, pending->request_log->error = "the client is gone";
    pending->answers->leave();
  };
  return answer;
}

Json Service::model_object(const ServedPromptModel& m) const {
  Json object{{"id", m.name}, {"object", "model"}, {"created", started_}, {"owned_by", "ravine"}};
  if (const int64_t positions = m.loaded->model->facts().max_positions; positions > 0) object["max_model_len"] = positions;
  return object;
}

void Service::count(const std::string& path, int status) {
  constexpr const char* kRoutes[] = {"/v1/completions", "/v1/chat/completions", "/v1/models"};
  if (std::find(std::begin(kRoutes), std::end(kRoutes), path) == std::end(kRoutes)) return;
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
}

std::string Service::metrics() const {
  const DeskCounts c = desk_.counts();
  std::string text;
  auto head = [&](const char* name, const char* type, const char* help) {
    text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  };
  auto one = [&](const char* name, const char* type, const char* help, int64_t value) {
    head(name, type, help);
    text += fmt::format("{} {}\n", name, value);
  };
  one("ravine_requests_running", "gauge", "Requests of which a text is being written", c.running);
  one("ravine_requests_waiting", "gauge", "Requests that wait for a place", c.waiting);
  one("ravine_prompt_tokens_total", "counter", "Tokens of the prompts of all requests", c.prompt_tokens);
  one("ravine_generated_tokens_total", "counter", "Tokens that were written", c.generated_tokens);
  one("ravine_steps_total", "counter", "Passes of the model", c.steps);
  head("ravine_requests_total", "counter", "Requests that were answered, or whose answer has begun");
  const std::lock_guard lock(mutex_);
  if (requests_.empty()) text += "ravine_requests_total{route=\"/v1/completions\",status=\"200\"} 0\n";
  for (const auto& [key, n] : requests_)
    text += fmt::format("ravine_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, n);
  return text;
}

}  // namespace ravine

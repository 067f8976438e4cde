// `ravine serve`: a model behind OpenAI's HTTP API.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "apps/adapters.h"
#include "apps/commands.h"
#include "apps/model_job.h"
#include "apps/named_prompt_models.h"
#include "apps/stop_signals.h"
#include "base/log.h"
#include "base/read_text.h"
#include "base/text.h"
#include "engine/make_recipe.h"
#include "io/model_folder.h"
#include "runs/run_paths.h"
#include "serve/service.h"

namespace ravine {
namespace {

struct ServeFlags {
  CommonFlags common;
  std::string model, served_model_name, chat_template, host = "127.0.0.1", api_key, api_key_file;
  std::vector<std::string> adapter, cors;
  int64_t port = 8000, max_batch = 16, max_queue = 256, max_body = 8, time_limit = 600;
  template <class V>
  void each(V&& v) {
    v("model", model, "Hugging Face folder", required() & same_as("model.path") & metavar("DIR") & reads_folder());
    v("adapter", adapter, "LoRA adapter of PEFT; NAME=DIR serves it as a separate model, several are possible",
      named() & metavar("[NAME=]DIR") & reads_folder());
    v("served-model-name", served_model_name, "name of the model for clients; empty: the name of its folder, or of its run",
      metavar("NAME"));
    v("host", host, "address to listen on; 0.0.0.0: all addresses of this machine", filled() & metavar("HOST"));
    v("port", port, "port to listen on; 0: a free port", between(0, 65535) & metavar("PORT"));
    v("api-key", api_key, "key that clients must send as Authorization: Bearer KEY; empty: see details, or no key",
      metavar("KEY") &
          detail(
              "If empty, the key comes from --api-key-file, else from RAVINE_API_KEY in the environment. Without either, no key is needed."));
    v("api-key-file", api_key_file, "file that holds the key, which is then not visible in lists of processes",
      metavar("FILE") & reads());
    v("cors", cors, "origin of web pages that may send requests, like https://example.org; *: all origins", metavar("ORIGIN"));
    v("max-batch", max_batch, "sequences generated at the same time", between(1, 4096) & metavar("N"));
    v("max-queue", max_queue, "requests that may wait; more are answered with 503", between(1, 1000000) & metavar("N"));
    v("max-body", max_body, "largest size of a request, in MiB", between(1, 1024) & metavar("N"));
    v("time-limit", time_limit, "time limit of a request in seconds, waiting included", between(1, 1000000) & metavar("S"));
    v("template", chat_template, "chat template, a name such as chatml, or a file of Jinja; empty: the model's own",
      same_as("data.chat_template") & metavar("NAME-or-FILE") & reads() & or_words(template_words()));
    common.each(v);
  }
};

// Returns the name of a folder; for RUN/model, the name of the run. A run in a folder of `ravine init` has the name of
// this folder.
std::string folder_name(const std::string& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::weakly_canonical(path, error);
  if (error) whole = path;
  if (!whole.has_filename()) whole = whole.parent_path();
  if (whole.filename() != "model" || !whole.parent_path().has_filename()) return whole.filename().string();
  whole = whole.parent_path();
  if (whole.parent_path().has_filename() && is_prepared(whole.parent_path().string())) whole = whole.parent_path();
  return whole.filename().string();
}

std::string key_of(const ServeFlags& flags) {
  if (!flags.api_key.empty() && !flags.api_key_file.empty())
    throw UserError("--api-key and --api-key-file", "command line", "there is one key", "leave one of them out");
  if (!flags.api_key.empty()) return flags.api_key;
  if (flags.api_key_file.empty()) {
    const char* text = std::getenv("RAVINE_API_KEY");
    return text ? text : "";
  }
  std::string key = read_text(flags.api_key_file, 1 << 16, "a key");
  key.erase(key.find_last_not_of(" \t\r\n") + 1);
  if (key.empty() || key.find_first_of("\r\n") != std::string::npos)
    throw UserError("no key", flags.api_key_file, "the file holds the key in one line", "write it there");
  return key;
}

void check_origins(const std::vector<std::string>& origins) {
  for (const std::string& o : origins) {
    const size_t host = o.find("://");
    const bool right = host != std::string::npos && host > 0 && host + 3 < o.size() &&
                       o.find_first_of("/ \t\r\n", host + 3) == std::string::npos;
    if (o != "*" && !right)
      throw UserError(fmt::format("--cors {}", escaped(o)), "command line", "an origin is a scheme and a host, without a path",
                      "for example --cors https://example.org, or --cors '*' for all pages");
  }
}

// Returns the conversation of a model; null if it has no chat template: it can still complete texts.
const ChatPrompt* chat_of(NamedPromptModels& named_models, size_t named, bool must_exist, Log& log) {
  try {
    return &named_models.chat(named);
  } catch (const UserError& e) {
    if (must_exist) throw;
    log.warn("no conversations: {}", escaped(e.what()));
    return nullptr;
  }
}

int run_serve(ServeFlags& flags, Config& config) {
  const std::string key = key_of(flags);
  check_origins(flags.cors);
  const ResolvedAdapters resolved = resolve_model_and_adapters(config.model.path, flags.adapter);
  config.model.path = flags.model = resolved.model;
  check_model_folder(config.model.path, "--model");
  Log log;
  NamedPromptModels named_models(config.model, resolved.adapters, flags.chat_template, {true, ""});
  std::vector<const ChatPrompt*> chats;
  for (size_t i = 0; i < named_models.size(); ++i) {
    if (!named_models[i].tokenizer)
      throw UserError("no tokenizer", config.model.path, "a server needs the tokenizer of the model",
                      "put it there, or set model.tokenizer");
    chats.push_back(chat_of(named_models, i, !flags.chat_template.empty(), log));
  }
  ServeFlags shown = flags;
  shown.api_key.clear();
  const LoadedModel loaded = open_model_job(nullptr, config.model.path, config, flags.common.backend, OpenFor::running,
                                            describe(shown), named_models[0].adapter);
  named_models.open(loaded);

  constexpr int64_t kUnbounded = 32768;  // tokens of a sequence, if the model has no limit
  const Recipe recipe = make_recipe(config.precision, loaded.kernels);
  GenerateOptions shared;
  shared.recipe = &recipe, shared.max_length = kUnbounded;
  DeskLimits limits{
      .max_sequences = flags.max_batch, .queue = flags.max_queue, .seconds = static_cast<double>(flags.time_limit)};
  limits.longest = 1;
  std::vector<ServedPromptModel> models;
  const std::string base_name = flags.served_model_name.empty() ? folder_name(config.model.path) : flags.served_model_name;
  for (size_t i = 0; i < named_models.size(); ++i) {
    const NamedPromptModel& v = named_models[i];
    const int64_t positions = v.loaded->model->facts().max_positions;
    limits.longest = std::max(limits.longest, positions > 0 ? positions : kUnbounded);
    models.push_back({v.name.empty() ? base_name : v.name, v.loaded, v.tokenizer.get(), chats[i], &v.defaults});
    for (const std::string& field : v.defaults.not_offered)
      log.warn("'{}' of generation_config.json is not offered and has no effect", field);
  }
  Desk desk(limits, shared);
  Service service(desk, models, {key, flags.cors, [](const std::string& line) { print_stderr(line); }}, shared);
  StopSignals signals;
  HttpLimits http;
  http.body = flags.max_body << 20;
  const HttpServer server(
      flags.host, static_cast<int>(flags.port), http, [&](HttpExchange& exchange) { return service.answer(exchange); },
      Service::refusal);
  const bool six = flags.host.find(':') != std::string::npos;
  fmt::print("listening on http://{}{}{}:{}\n", six ? "[" : "", flags.host, six ? "]" : "", server.port());
  std::fflush(stdout);
  if (key.empty() && flags.host != "127.0.0.1" && flags.host != "localhost" && flags.host != "::1")
    log.warn("whoever reaches {} may ask: there is no API key", escaped(flags.host));
  signals.set_stop_lines("finishing what is under way; Ctrl-C once more ends at once", "stopped");
  desk.run([&] { return signals.requested(); });
  return 0;
}

}  // namespace

Command serve_command() {
  return command<ServeFlags>(
      {.name = "serve",
       .summary = "serve a model over HTTP, by OpenAI's API",
       .example = "ravine serve --model my-llama-chat --port 8000",
       .about =
           "Serves completions and chat completions, streamed or whole, and a page at /. Requests share batches; a request that fails ends alone.",
       .sections = {"model.path", "model.tokenizer", "lora.base", "data.chat_template", "precision.compute",
                    "precision.bf16_products", "precision.recipes", "precision.unfused"},
       .alone = true,
       .lasting = true},
      "Run", run_serve);
}

}  // namespace ravine

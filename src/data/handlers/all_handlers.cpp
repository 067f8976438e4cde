#include "data/handlers/all_handlers.h"

#include "base/error.h"
#include "base/text.h"
#include "data/handlers/handlers.h"
#include "data/text_handler.h"

namespace ravine {

namespace {

// Returns the text handler and the handlers of instruction sets (handlers/handlers.cpp).
std::vector<HandlerEntry> all_handlers() {
  std::vector<HandlerEntry> all{{"text", "the texts under --json-keys", make_text_handler}};
  for (const HandlerEntry& e : instruct_handlers()) all.push_back(e);
  return all;
}

}  // namespace

std::vector<std::string> record_handler_names() {
  std::vector<std::string> names;
  for (const HandlerEntry& k : all_handlers()) names.push_back(k.name);
  return names;
}

std::unique_ptr<RecordHandler> make_record_handler(const std::string& name, const HandlerOptions& options) {
  require(options.tokenizer != nullptr, "handler: it needs a tokenizer");
  if (options.append_eod && !options.tokenizer->special().eos)
    throw UserError(
        "the tokenizer has no end token", "--append-eod", "it is appended to each document",
        "put the tokenizer_config.json that names its eos_token beside the tokenizer's files, or leave --append-eod out");
  for (const HandlerEntry& k : all_handlers())
    if (name == k.name || (name.empty() && k.name == std::string("text"))) return k.make(options);
  const std::string near = nearest(name, record_handler_names());
  throw UserError("unknown handler", name,
                  near.empty() ? fmt::format("there are {}", fmt::join(record_handler_names(), ", "))
                               : fmt::format("did you mean '{}'?", near),
                  "choose one of them with --handler");
}

}  // namespace ravine

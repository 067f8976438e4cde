#include "data/record_handler.h"

#include <array>

#include "base/error.h"
#include "base/text.h"
#include "data/text_handler.h"

namespace ravine {

namespace {

struct Kind {
  const char* name;
  std::unique_ptr<RecordHandler> (*make)(const HandlerOptions& options);
};
// One line per handler.
constexpr std::array kKinds{
    Kind{"text", make_text_handler},
};

}  // namespace

std::vector<std::string> record_handler_names() {
  std::vector<std::string> names;
  for (const Kind& k : kKinds) names.push_back(k.name);
  return names;
}

std::unique_ptr<RecordHandler> make_record_handler(const std::string& name, const HandlerOptions& options) {
  require(options.tokenizer != nullptr, "handler: it needs a tokenizer");
  if (options.append_eod && !options.tokenizer->special().eos)
    throw UserError("the tokenizer has no end token", "--append-eod", "it is put behind each document", "leave the option out or choose another tokenizer");
  for (const Kind& k : kKinds)
    if (name == k.name || (name.empty() && k.name == std::string("text"))) return k.make(options);
  const std::string near = nearest(name, record_handler_names());
  throw UserError("unknown handler", name, near.empty() ? fmt::format("there are {}", fmt::join(record_handler_names(), ", ")) : fmt::format("did you mean '{}'?", near),
                  "choose one of them with --handler");
}

}  // namespace ravine

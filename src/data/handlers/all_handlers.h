// The registry of all record handlers: the handler of plain text, and the handlers of instruction sets (handlers.h).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/record_handler.h"

namespace ravine {

// Returns a new record handler (data/record_handler.h) of this name. "" and "text" are the handler of plain text, which
// makes one list for each key in options.keys. An unknown name is a UserError that lists the known names.
std::unique_ptr<RecordHandler> make_record_handler(const std::string& name, const HandlerOptions& options);
std::vector<std::string> record_handler_names();

}  // namespace ravine

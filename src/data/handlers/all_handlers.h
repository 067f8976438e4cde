// All record handlers there are: that of plain text, and those of instruction sets (handlers.h).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/record_handler.h"

namespace ravine {

// By name; "" and "text" take the texts under `keys` (a list per key). An unknown name is a UserError that lists the known.
std::unique_ptr<RecordHandler> make_record_handler(const std::string& name, const HandlerOptions& options);
std::vector<std::string> record_handler_names();

}  // namespace ravine

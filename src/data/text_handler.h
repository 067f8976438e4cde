// The handler of plain text: the strings under some keys, one list for each.
#pragma once
#include <memory>

#include "data/record_handler.h"

namespace ravine {

// A text is one sequence; a list of texts is a document of several. Texts without a token are left out and counted. With
// append_eod the end token goes behind the last sequence of each document.
std::unique_ptr<RecordHandler> make_text_handler(const HandlerOptions& options);

}  // namespace ravine

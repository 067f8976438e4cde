// The handler of plain text: one list for each key, of the strings under this key.
#pragma once
#include <memory>

#include "data/record_handler.h"

namespace ravine {

// Returns the handler of plain text. The handler makes one token list for each key in options.keys, of the value under
// this key. A text is a document of one sequence; a list of texts is a document of several sequences. Texts without
// tokens are dropped and counted. With append_eod, the end token is appended to the last sequence of each document.
std::unique_ptr<RecordHandler> make_text_handler(const HandlerOptions& options);

}  // namespace ravine

// The record handlers of instruction sets, one file each. The table is in handlers.cpp.
#pragma once
#include <memory>
#include <span>

#include "data/record_handler.h"

namespace ravine {

// A row of the table of handlers of instruction sets: the name, a line for the help, and the function that makes one.
struct HandlerEntry {
  const char *name, *summary;
  std::unique_ptr<RecordHandler> (*make)(const HandlerOptions& options);
};

std::span<const HandlerEntry> instruct_handlers();

// Return a new handler each. The file of the function's name describes the records that the handler reads.
std::unique_ptr<RecordHandler> make_general_instruction(const HandlerOptions& options);
std::unique_ptr<RecordHandler> make_belle_multi_turn(const HandlerOptions& options);
std::unique_ptr<RecordHandler> make_moss(const HandlerOptions& options);
std::unique_ptr<RecordHandler> make_moss_multi_turn(const HandlerOptions& options);
std::unique_ptr<RecordHandler> make_leetcode_python(const HandlerOptions& options);
std::unique_ptr<RecordHandler> make_alpaca_pretrain(const HandlerOptions& options);
std::unique_ptr<RecordHandler> make_stack_overflow_pretrain(const HandlerOptions& options);
std::unique_ptr<RecordHandler> make_alpaca_chat(const HandlerOptions& options);
std::unique_ptr<RecordHandler> make_sharegpt_chat(const HandlerOptions& options);
std::unique_ptr<RecordHandler> make_messages_chat(const HandlerOptions& options);

}  // namespace ravine

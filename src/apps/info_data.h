// What `ravine info` says about data: token files and files of texts.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

struct DataInfoOptions {
  std::string tokenizer;      // to decode samples with; empty: ids are shown
  std::string chat_template;  // of conversations, as data.chat_template; empty: the tokenizer's own
  int64_t samples = 3;
};

// Nothing if the path names no data of this kind. All of it is read and checked; damage is a UserError.
std::optional<Json> describe_data(const std::string& path, const DataInfoOptions& options);

// The same of a fixed batch file (data/fixed_batches.h); nothing if it has no input_ids.
std::optional<Json> describe_batches(const std::string& path, const DataInfoOptions& options);

// The part `lengths` and `samples` of it, for people: a histogram, and texts with their trained parts green on a terminal.
void print_lengths(const Json& lengths);
void print_samples(const Json& samples);

}  // namespace ravine

// Output of `ravine info` for data: token files and files of texts.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

// The settings of `ravine info` for data, from its flags.
struct DataInfoOptions {
  std::string tokenizer;      // decodes samples; empty: ids are shown
  std::string chat_template;  // as data.chat_template; empty: the tokenizer's
  int64_t samples = 3;
};

// Describes the token files, or the files of texts or records, at a path; nothing if the path has none. All data is
// read and checked; damage is a UserError.
std::optional<Json> describe_data(const std::string& path, const DataInfoOptions& options);

// Describes a fixed batch file (data/fixed_batches.h); nothing if it has no input_ids.
std::optional<Json> describe_batches(const std::string& path, const DataInfoOptions& options);

// Prints `lengths` of the result of describe_data as a histogram.
void print_lengths(const Json& lengths);
// Prints `samples` of the result of describe_data as texts, whose trained parts are green on a terminal.
void print_samples(const Json& samples);

}  // namespace ravine

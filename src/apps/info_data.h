// What `ravine info` says about data: token files and files of texts.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace ravine {

struct DataInfoOptions {
  std::string tokenizer;  // to decode samples with; empty: ids are shown
  int64_t samples = 3;
};

// Nothing if the path names no data of this kind. All of it is read and checked; damage is a UserError.
std::optional<Json> describe_data(const std::string& path, const DataInfoOptions& options);

// The part `lengths` and `samples` of it, for people: a histogram, and texts with their trained parts green on a terminal.
void print_lengths(const Json& lengths);
void print_samples(const Json& samples);

}  // namespace ravine

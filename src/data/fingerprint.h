// Checksums of the data, the tokenizer and the chat template of a run. Checkpoints store them, so that a run is not
// resumed with others by mistake.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"
#include "text/tokenizer.h"

namespace ravine {

struct DataFingerprint {
  struct Source {
    std::string path;      // as in the config
    std::string checksum;  // of the files of the source, in order
  };
  std::vector<Source> sources;
  bool blend = false;         // there are weights: sources may be added and removed
  std::string tokenizer;      // checksum of the tokenizer's rules; empty if no tokenizer is needed
  std::string chat_template;  // checksum of the template that renders conversations; empty if none are rendered
  // Other keys of the data section that change the samples.
  std::vector<std::pair<std::string, std::string>> options;

  Json json() const;
  // Returns a line per source, and one each for tokenizer and chat template. Ranks compare the text.
  std::string text() const;
};

// Computes the fingerprint. Text and record files are read whole. Token files, fixed batches and MindRecord files above
// 64 MiB contribute their size and 1024 blocks, evenly spread. Throws the errors of source_files(). tokenizer: may be
// null; chat_template: ChatTemplate::fingerprint() if conversations are rendered.
DataFingerprint fingerprint_of(const DataOptions& data, const Tokenizer* tokenizer, std::optional<uint64_t> chat_template = {});

// Throws a UserError if a run may not be resumed with the data `now` from a checkpoint with the fingerprint `was`. A
// `was` that is not a fingerprint is accepted.
// The error names `checkpoint`, the first difference, and the option that allows it. Another tokenizer, another chat
// template or other data are refused. Without weights, all sources must have the same contents in the same order. In a
// blend, sources may be added and removed, if at least one is known and no known path has other contents.
void refuse_other_data(const Json& was, const DataFingerprint& now, const std::string& checkpoint);

// Returns the keys of the data section whose values differ, as "data.pack (was true, is false)".
std::vector<std::string> other_data_options(const Json& was, const DataFingerprint& now);

}  // namespace ravine

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
  bool blend = false;         // the sources are mixed by weights: a resumed run may add and remove sources
  std::string tokenizer;      // checksum of the tokenizer's rules; empty if no tokenizer is needed
  std::string chat_template;  // checksum of the template that renders conversations; empty if none are rendered
  // Further keys of the config's data section that change the samples, with their values.
  std::vector<std::pair<std::string, std::string>> options;

  Json json() const;
  // Returns the fingerprint as text: a line per source, and one each for tokenizer and chat template. Ranks compare
  // their texts.
  std::string text() const;
};

// Computes the checksums of the data files, the tokenizer and the chat template of a run. Text and record files are
// read whole. Of token files, fixed batches and MindRecord files above 64 MiB, the size and 1024 evenly spread blocks
// are used. Throws the errors of source_files(). tokenizer: null if the data needs none. chat_template:
// ChatTemplate::fingerprint() if conversations are rendered; else empty.
DataFingerprint fingerprint_of(const DataOptions& data, const Tokenizer* tokenizer, std::optional<uint64_t> chat_template = {});

// Throws a UserError if a run may not be resumed with the data `now` from a checkpoint with the fingerprint `was` (the
// result of DataFingerprint::json()). A `was` that is not a fingerprint is accepted.
// The error names `checkpoint`, the first difference, and the option that allows it. Another tokenizer, another chat
// template or other data are refused. Without weights, all sources must have the same contents in the same order. In a
// blend, sources may be added and removed, if at least one is known and no known path has other contents.
void refuse_other_data(const Json& was, const DataFingerprint& now, const std::string& checkpoint);

// Compares the data options of a checkpoint's fingerprint `was` with the data options `now` of the resumed run. Returns
// a text for each key of the data section whose value differs: "data.pack (was true, is false)".
std::vector<std::string> other_data_options(const Json& was, const DataFingerprint& now);

}  // namespace ravine

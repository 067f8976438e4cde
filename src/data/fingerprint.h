// What the sources of a run hold, as checksums: kept in checkpoints, so that nobody goes on with other data, another tokenizer
// or another chat template by mistake.
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
    std::string path;      // as configured
    std::string checksum;  // of its files, in order
  };
  std::vector<Source> sources;
  bool blend = false;                                        // with weights: sources may come and go
  std::string tokenizer;                                     // of what it does to text; empty where none is needed
  std::string chat_template;                                 // that renders conversations; empty where none are rendered
  std::vector<std::pair<std::string, std::string>> options;  // other keys of the data section that decide what samples hold

  Json json() const;
  // A line per source and one each for tokenizer and chat template, for comparing ranks.
  std::string text() const;
};

// Reads text and records whole. Of token files and fixed batches larger than 64 MiB, which are not read at a start, it takes
// the size and 1024 blocks spread evenly. Errors of source_files. `tokenizer` may be null; chat_template is
// ChatTemplate::fingerprint, if conversations are rendered.
DataFingerprint fingerprint_of(const DataOptions& data, const Tokenizer* tokenizer, std::optional<uint64_t> chat_template = {});

// Whether a run may go on with `now` from a checkpoint that has `was` (its "fingerprint"; anything that is none says nothing).
// Another tokenizer, chat template or other data are a UserError that names `checkpoint`, the first difference and how to go on
// anyway. Without weights all sources must hold the same in the same order; in a blend they may come and go, as long as one is
// known and none of a known path holds something else.
void refuse_other_data(const Json& was, const DataFingerprint& now, const std::string& checkpoint);

// Keys of the data section whose values differ, as "data.pack (was true, is false)".
std::vector<std::string> other_data_options(const Json& was, const DataFingerprint& now);

}  // namespace ravine

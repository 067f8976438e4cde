// What a run reads, opened: tokenizer, training and validation data, and what is said of them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "comm/ranks.h"
#include "config/config.h"
#include "data/dataset.h"
#include "data/fingerprint.h"
#include "model/model.h"
#include "runs/run_folder.h"
#include "text/tokenizer.h"

namespace ravine {

struct RunData {
  std::unique_ptr<Tokenizer> tokenizer;    // null where ids suffice
  std::unique_ptr<Dataset> train, valid;   // valid: null if there is none
  std::vector<TokensInUse> tokens_in_use;  // what keep_tokens writes
  std::vector<std::string> notes, warnings;
  std::optional<int32_t> end_token;     // of answers, when conversations are trained on
  std::optional<int32_t> document_end;  // that data.append_eos puts behind documents, when text is trained on
  bool new_end = false;                 // the one that is trained (of answers, else of documents) is none that the model names
  std::string chat_template;            // that they were rendered with, if not the tokenizer's own
  DataFingerprint fingerprint;          // of the sources
};

// All ranks call it, and are told where they have other data than the first. Of several ranks the first makes tokens of text,
// which takes the folder if there are any; the others find them where it keeps them for the next start. Before all that: a
// generation_config.json of model.path that `generate` would refuse (infer/generation_config.h), since the exported model has it.
RunData open_run_data(const Config& config, const ModelFacts& facts, const Ranks& ranks, RunFolder& folder, Log& log);

// Keeps tokens of text for the next start, in a folder that is held; a disk without room is a warning.
void keep_tokens(RunData& data, const Config& config, Log& log);

}  // namespace ravine

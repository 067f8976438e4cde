// The opened data of a run: tokenizer, training and validation data, and their notes for the log.
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

// The opened data of a run: tokenizer, datasets, end tokens, and notes for the log. The result of open_run_data.
struct RunData {
  std::unique_ptr<Tokenizer> tokenizer;    // null if the data are token ids
  std::unique_ptr<Dataset> train, valid;   // valid: null if there are no validation data
  std::vector<TokensInUse> tokens_in_use;  // the tokens that keep_tokens writes
  std::vector<std::string> notes, warnings;
  std::optional<int32_t> end_token;     // end of an answer, if conversations are trained
  std::optional<int32_t> document_end;  // end of a document by data.append_eos, if text is trained
  bool new_end = false;                 // true if the model does not name the trained end token
  std::string chat_template;            // the template of the conversations, if it is not the tokenizer's
  DataFingerprint fingerprint;          // of the sources
};

// Opens tokenizer, training and validation data of a run. If a rank has other data than the first, all ranks get a
// UserError. The first of several ranks tokenizes text and locks the folder to store the tokens; the other ranks read
// them there. Before that, a generation_config.json in model.path that `generate` would reject is a UserError
// (infer/generation_config.h), because it is exported. All ranks call it together.
RunData open_run_data(const Config& config, const ModelFacts& facts, const Ranks& ranks, RunFolder& folder, Log& log);

// Stores the token ids of tokenized text in the locked run folder, so that the next start does not tokenize again. A
// full disk is a warning.
void keep_tokens(RunData& data, const Config& config, Log& log);

}  // namespace ravine

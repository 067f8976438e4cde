// Token ids of a training as a stream of sequences. Sources are the data of a config, token files, MindRecord files,
// records of text or ids, arrays, and dumps with ids.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checks/side.h"
#include "text/tokenizer.h"

namespace ravine {

// One sequence. labels: empty if the source has none.
struct TokenRow {
  std::vector<int32_t> ids, labels;
  // The columns of each attention segment. Labels never reach from one segment into another.
  std::vector<std::pair<int32_t, int32_t>> segments;  // begin and length; empty: one segment
};

class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual int64_t rows() const = 0;
  virtual TokenRow row(int64_t index) const = 0;
  virtual std::string location(int64_t index) const = 0;  // the file and place of a row
  // True if labels[t] is the token that column t predicts; false if the program shifts them later.
  virtual bool shifted() const { return false; }
};

// A source of tokens, opened: the result of open_tokens().
struct TokenSource {
  std::string path, kind;
  std::shared_ptr<const Tokenizer> tokenizer;  // null if none is known
  std::string tokenizer_path;                  // "": none
  std::shared_ptr<Side> side;                  // null if the source is no config
  bool conversations = false;                  // true: a chat template has rendered the rows
  std::unique_ptr<TokenStream> tokens;
  std::vector<std::string> notes;
};

// Opens a source: a config as load_side() takes it, or a path of data. tokenizer: file or folder; "": the config's
// tokenizer. A source without tokens is a UserError.
TokenSource open_tokens(const std::string& given, const std::string& tokenizer, const SideFacts& facts);

}  // namespace ravine

// Turns a record into lists of token ids: what `ravine preprocess` writes, one .bin/.idx for each list. To add a handler, write
// one file with a class of this kind and add its line to the table in handlers/handlers.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/record.h"
#include "text/tokenizer.h"

namespace ravine {

// A document of one list: one or more sequences of ids, side by side.
struct TokenDocument {
  std::vector<int32_t> ids;
  std::vector<int32_t> lengths;  // of the sequences; their sum is ids.size()
  void add(std::span<const int32_t> sequence) {
    ids.insert(ids.end(), sequence.begin(), sequence.end());
    lengths.push_back(static_cast<int32_t>(sequence.size()));
  }
};

inline constexpr const char* kEmptyText = "empty text";  // reason to drop; --strict makes it an error

struct HandledRecord {
  std::vector<TokenDocument> lists;  // one for each of lists(), in its order; one without a sequence is not written
  // Why something was left out ("longer than --seq-length"), once for each sequence: counted by reason and reported at the end.
  std::vector<std::string> dropped;
};

// Does not change after it was made: handle() is called by several threads at once.
class RecordHandler {
 public:
  struct List {
    std::string name;       // written to PREFIX_<name>_document.bin/.idx
    bool negative = false;  // holds numbers below 0 (ignored labels): stored as int32 whatever the vocabulary
  };
  virtual ~RecordHandler() = default;
  virtual std::vector<List> lists() const = 0;
  virtual std::vector<std::string> fields() const { return {}; }  // what it looks at in a table; empty: everything
  // Fills `out` (given with lists().size() empty documents). The record is valid UTF-8. One that does not fit is a UserError
  // naming record.where().
  virtual void handle(const Record& record, HandledRecord& out) const = 0;
};

struct HandlerOptions {
  const Tokenizer* tokenizer = nullptr;      // outlives the handler
  std::vector<std::string> keys = {"text"};  // fields to take
  bool append_eod = false;                   // the tokenizer's eos behind each document
  int64_t sequence_length = 0;               // longer sequences are dropped; 0: none are
  std::string chat_template;                 // name or file; empty: the tokenizer's own
};

}  // namespace ravine

// The interface of handlers, which turn records into lists of token ids for `ravine preprocess`. Each list becomes one
// .bin/.idx. To add a handler, write a file with a subclass and add its line to the table in handlers/handlers.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/record.h"
#include "text/tokenizer.h"

namespace ravine {

// A document of one list: one or more sequences of ids, concatenated.
struct TokenDocument {
  std::vector<int32_t> ids;
  std::vector<int32_t> lengths;  // lengths of the sequences; their sum is ids.size()
  void add(std::span<const int32_t> sequence) {
    ids.insert(ids.end(), sequence.begin(), sequence.end());
    lengths.push_back(static_cast<int32_t>(sequence.size()));
  }
};

inline constexpr const char* kEmptyText = "empty text";  // reason in HandledRecord::dropped; --strict makes it an error

// The output of a handler for one record.
struct HandledRecord {
  // One per list, in the order of lists(); documents without sequences are not written.
  std::vector<TokenDocument> lists;
  // Reasons of dropped sequences ("longer than --seq-length"), one per sequence. The reasons are counted and reported
  // at the end.
  std::vector<std::string> dropped;
};

// Turns records into lists of documents. Immutable: several threads call handle() at once.
class RecordHandler {
 public:
  struct List {
    std::string name;  // written to PREFIX_<name>_document.bin/.idx
    // The list has values below 0 (ignored labels): it is stored as int32 for any vocabulary.
    bool negative = false;
  };
  virtual ~RecordHandler() = default;
  virtual std::vector<List> lists() const = 0;
  virtual std::vector<std::string> fields() const { return {}; }  // the columns of a table that it reads; empty: all
  // Fills `out`, which has lists().size() empty documents. The record is valid UTF-8. A record that the handler cannot
  // use is a UserError that names record.where().
  virtual void handle(const Record& record, HandledRecord& out) const = 0;
};

struct HandlerOptions {
  const Tokenizer* tokenizer = nullptr;      // must outlive the handler
  std::vector<std::string> keys = {"text"};  // fields to read
  bool append_eod = false;                   // append the tokenizer's eos to each document
  int64_t sequence_length = 0;               // longer sequences are dropped; 0: none
  std::string chat_template;                 // name or file; empty: the tokenizer's template
};

}  // namespace ravine

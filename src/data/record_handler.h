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
  // A document for each list of RecordHandler::lists(), in its order. A document without sequences is not written.
  std::vector<TokenDocument> lists;
  // Reasons of dropped sequences ("longer than --seq-length"), one per sequence. The reasons are counted and reported
  // at the end.
  std::vector<std::string> dropped;
};

// The interface of handlers, which turn the records of a corpus into documents of token ids. Immutable: several threads
// call handle() at once.
class RecordHandler {
 public:
  // A list of token ids that the handler makes.
  struct List {
    std::string name;  // the list is written to PREFIX_<name>_document.bin/.idx
    // true: the list has values below 0 (ignored labels), so it is stored as int32 for any vocabulary.
    bool negative = false;
  };
  virtual ~RecordHandler() = default;
  virtual std::vector<List> lists() const = 0;
  // Returns the columns of a table file (Parquet) that the handler reads; empty: all.
  virtual std::vector<std::string> fields() const { return {}; }
  // Tokenizes a record and adds its documents to `out`, which has lists().size() empty documents. The record must be
  // valid UTF-8. A record that the handler cannot use is a UserError that names record.where().
  virtual void handle(const Record& record, HandledRecord& out) const = 0;
};

// The settings of a record handler.
struct HandlerOptions {
  const Tokenizer* tokenizer = nullptr;      // must outlive the handler
  std::vector<std::string> keys = {"text"};  // fields of the records to read
  bool append_eod = false;                   // append the tokenizer's eos to each document
  int64_t sequence_length = 0;               // sequences of this length or longer are dropped; 0: no limit
  std::string chat_template;                 // name or file of a chat template; empty: the tokenizer's template
};

}  // namespace ravine

// Documents as token ids in memory.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace ravine {

// The interface of tokenized documents, concatenated. Const members are thread-safe.
class TokenDocuments {
 public:
  virtual ~TokenDocuments() = default;
  virtual int64_t tokens() const = 0;
  virtual int64_t documents() const = 0;
  // The first token of a document, and the token after its last one; tokens are counted over all documents.
  virtual int64_t begin_of(int64_t document) const = 0;
  virtual int64_t end_of(int64_t document) const = 0;
  virtual int64_t document_at(int64_t token) const = 0;  // returns the document that holds a token
  // Copies into.size() tokens, from token `begin` on, across documents.
  virtual void copy(int64_t begin, std::span<int32_t> into) const = 0;
  // Returns the documents that hold tokens [begin, end), as text for messages: "a.txt document 3 to b.jsonl document
  // 1".
  virtual std::string origin(int64_t begin, int64_t end) const = 0;
};

// Returns the capacity, in elements, that grow_held() reserves for a vector of `have` elements of `width` bytes to
// which `more` elements will be added.
size_t held_capacity(size_t have, size_t more, size_t width, const std::string& where);

// Reserves memory in a vector for `more` further elements. It reserves twice the size, or only slightly more than
// needed if memory is short. If even this is not free, it throws a UserError before the system runs out of memory. The
// error names `where`, the size of the vector and the free memory in bytes.
template <class T>
void grow_held(std::vector<T>& held, size_t more, const std::string& where) {
  if (held.size() + more <= held.capacity()) return;
  held.reserve(held_capacity(held.size(), more, sizeof(T), where));
}

// All documents of several files in memory: two bytes per token if the vocabulary allows it, else four. After it is
// filled, it is read-only and thread-safe.
class TokenStore final : public TokenDocuments {
 public:
  explicit TokenStore(int64_t vocabulary) : narrow_(vocabulary <= 65536) {}
  void begin_file(const std::string& path) { files_.push_back({path, documents()}); }
  void append(std::span<const int32_t> document);  // adds a document to the last file; it must have a token

  int64_t tokens() const override { return ends_.empty() ? 0 : ends_.back(); }
  int64_t documents() const override { return static_cast<int64_t>(ends_.size()); }
  int64_t begin_of(int64_t document) const override { return document == 0 ? 0 : ends_[static_cast<size_t>(document) - 1]; }
  int64_t end_of(int64_t document) const override { return ends_[static_cast<size_t>(document)]; }
  int64_t document_at(int64_t token) const override;
  void copy(int64_t begin, std::span<int32_t> into) const override;
  // Return the contents for the token cache: the ids as bytes, and the end of each document in tokens.
  std::span<const std::byte> id_bytes() const;
  const std::vector<int64_t>& ends() const { return ends_; }
  std::vector<int64_t> file_starts() const;  // the number of the first document of each file
  // Fills an empty store of the same vocabulary with the bytes of id_bytes(), ends() and file_starts(). Returns false
  // if they do not fit together.
  bool restore(std::span<const std::byte> ids, std::span<const std::byte> ends, std::span<const std::byte> file_starts,
               const std::vector<std::string>& paths);
  std::string origin(int64_t begin, int64_t end) const override;

 private:
  struct File {
    std::string path;
    int64_t first = 0;  // the first document of the file
  };
  std::string name_of(int64_t document) const;
  std::string last_file() const { return files_.empty() ? "data" : files_.back().path; }
  bool narrow_;
  std::vector<uint16_t> narrow_ids_;
  std::vector<int32_t> ids_;
  std::vector<int64_t> ends_;
  std::vector<File> files_;
};

// The progress of tokenizing, for the callbacks of tokenize_files() and read_chats().
struct TokenizeProgress {
  int64_t files_done = 0, files = 0;   // completed files; all files
  int64_t text_bytes = 0, tokens = 0;  // so far
};

// The settings of tokenize_files().
struct TokenizeOptions {
  std::string text_key;     // the field of records that holds the text
  bool append_eos = false;  // append the tokenizer's eos to each document
  int64_t vocabulary = 0;   // ids must be below it; 0: the tokenizer's size
  double held_out = 0;      // share of the text that is held out for validation (held_out.h), 0 <= share < 1
  int threads = 0;          // 0: thread_count()
  // Called on the calling thread from time to time; may be empty.
  std::function<void(const TokenizeProgress&)> progress;
};

// The result of tokenize_files().
struct TokenizedFiles {
  TokenStore train, held_out;
  int64_t empty = 0;  // records with an empty or null text, which are not documents
};

// Reads and tokenizes files of text or records with several threads; returns when all are complete. A document gets the
// tokens that the tokenizer adds to a text (bos), and with options.append_eos the eos at its end.
// A document is held out by a hash of its text alone. So the choice does not depend on the seed, and equal documents
// are treated alike. If the share would be missed by far, documents are cut (held_out.h), so that between half and
// twice the share is held out. Text too short for this is a UserError. An id at or above `vocabulary` is a UserError
// that names file and line.
TokenizedFiles tokenize_files(const std::vector<std::string>& files, const Tokenizer& tokenizer,
                              const TokenizeOptions& options);

}  // namespace ravine

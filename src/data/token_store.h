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

// Documents one behind the other, wherever they lie. Const members may be called by any number of threads.
class TokenDocuments {
 public:
  virtual ~TokenDocuments() = default;
  virtual int64_t tokens() const = 0;
  virtual int64_t documents() const = 0;
  virtual int64_t begin_of(int64_t document) const = 0;  // its first token, counted from the start of all
  virtual int64_t end_of(int64_t document) const = 0;
  virtual int64_t document_at(int64_t token) const = 0;  // the document that holds this token
  virtual void copy(int64_t begin, std::span<int32_t> into) const = 0;
  virtual std::string origin(int64_t begin, int64_t end) const = 0;  // for people: "a.txt document 3 to b.jsonl document 1"
};

// How many elements of `width` bytes to make room for, where `have` are held and `more` come.
size_t held_capacity(size_t have, size_t more, size_t width, const std::string& where);

// Room for `more` further elements: twice as much as before, or barely enough where memory does not allow that. Where not even
// that is free it is a UserError that says how much is held and how much is free, before the system runs out of memory.
template <class T>
void grow_held(std::vector<T>& held, size_t more, const std::string& where) {
  if (held.size() + more <= held.capacity()) return;
  held.reserve(held_capacity(held.size(), more, sizeof(T), where));
}

// All documents of some files in memory. Two bytes per token where the vocabulary fits, four otherwise. Once filled
// it is only read, by any number of threads.
class TokenStore final : public TokenDocuments {
 public:
  explicit TokenStore(int64_t vocabulary) : narrow_(vocabulary <= 65536) {}
  void begin_file(const std::string& path) { files_.push_back({path, documents()}); }
  void append(std::span<const int32_t> document);  // not empty

  int64_t tokens() const override { return ends_.empty() ? 0 : ends_.back(); }
  int64_t documents() const override { return static_cast<int64_t>(ends_.size()); }
  int64_t begin_of(int64_t document) const override { return document == 0 ? 0 : ends_[static_cast<size_t>(document) - 1]; }
  int64_t end_of(int64_t document) const override { return ends_[static_cast<size_t>(document)]; }
  int64_t document_at(int64_t token) const override;
  void copy(int64_t begin, std::span<int32_t> into) const override;
  // All of it as bytes, and back into an empty store of the same vocabulary. False if the parts do not fit together.
  std::span<const std::byte> id_bytes() const;
  const std::vector<int64_t>& ends() const { return ends_; }
  std::vector<int64_t> file_starts() const;  // first document of each file
  bool restore(std::span<const std::byte> ids, std::span<const std::byte> ends, std::span<const std::byte> file_starts,
               const std::vector<std::string>& paths);
  std::string origin(int64_t begin, int64_t end) const override;

 private:
  struct File {
    std::string path;
    int64_t first = 0;  // document
  };
  std::string name_of(int64_t document) const;
  std::string last_file() const { return files_.empty() ? "data" : files_.back().path; }
  bool narrow_;
  std::vector<uint16_t> narrow_ids_;
  std::vector<int32_t> ids_;
  std::vector<int64_t> ends_;
  std::vector<File> files_;
};

struct TokenizeProgress {
  int64_t files_done = 0, files = 0;
  int64_t text_bytes = 0, tokens = 0;  // so far
};

struct TokenizeOptions {
  std::string text_key;
  bool append_eos = false;
  int64_t vocabulary = 0;  // ids must be below it; 0: the tokenizer's size
  double held_out = 0;     // share of the text that goes to the second store (held_out.h), 0 <= share < 1
  int threads = 0;         // 0: as many as thread_count()
  std::function<void(const TokenizeProgress&)> progress;  // called on the calling thread now and then; may be empty
};

struct TokenizedFiles {
  TokenStore train, held_out;
  int64_t empty = 0;  // records with an empty or null text, which are no documents
};

// Reads and tokenizes files with threads of its own; blocks until done. A document gets what the tokenizer puts around a text
// (bos), and eos behind it when asked. Which documents are held out follows from a hash of their text alone, so it does not
// depend on the seed, and equal documents never part; where documents are few one is cut (held_out.h), so that between half and
// twice the share is held out; text too short for that is a UserError. An id at or above `vocabulary` is a UserError naming
// file and line.
TokenizedFiles tokenize_files(const std::vector<std::string>& files, const Tokenizer& tokenizer,
                              const TokenizeOptions& options);

}  // namespace ravine

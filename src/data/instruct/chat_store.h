// Encoded conversations in memory, and the samples made of them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/instruct/chat_encoder.h"
#include "data/instruct/sample_layout.h"
#include "data/stream.h"
#include "data/token_store.h"

namespace ravine {

// Encoded conversations in memory: ids, and which of them are learned. After it is filled, it is read-only and
// thread-safe.
class ChatStore {
 public:
  explicit ChatStore(int64_t vocabulary) : tokens_(vocabulary) {}
  void begin_file(const std::string& path) { files_.emplace_back(path, count()); }
  // Adds a conversation with at least two ids to the file of the last begin_file(). record: its number in the file, for
  // messages.
  void append(const EncodedChat& chat, int64_t record);

  int64_t count() const { return tokens_.documents(); }
  int64_t length(int64_t i) const { return tokens_.end_of(i) - tokens_.begin_of(i); }
  int64_t tokens() const { return tokens_.tokens(); }
  EncodedChat chat(int64_t i) const;
  std::string origin(int64_t i) const;  // "FILE record 3"
  // The contents of a store as bytes, for the token cache. files: for each file its index in a list of paths, and its
  // first conversation (int64 pairs).
  struct Bytes {
    std::span<const std::byte> ids, ends, learned, records, files;
  };
  std::vector<int64_t> file_offsets(const std::vector<std::string>& paths) const;
  // Returns views of the contents, which the store and `file_offsets` must outlive. file_offsets: the result of
  // file_offsets().
  Bytes bytes(const std::vector<int64_t>& file_offsets) const;
  // Fills an empty store of the same vocabulary with the contents of bytes(). Returns false if the parts do not fit
  // together.
  bool restore(const Bytes& bytes, const std::vector<std::string>& paths);
  // Copies each conversation into `below` if its hash is below the threshold, else into `others`. Both stores must be
  // empty.
  void split(const std::vector<uint64_t>& hashes, uint64_t threshold, ChatStore& below, ChatStore& others) const;

 private:
  TokenStore tokens_;
  std::vector<uint8_t> learned_;  // of each token
  std::vector<int64_t> records_;
  std::vector<std::pair<std::string, int64_t>> files_;  // path and first conversation of each file
};

// Appends the columns of a conversation to a sample, as a separate attention segment with positions from 0. n tokens
// are n - 1 columns. A label is ignored unless its token is learned.
void append_chat(Sample& sample, const EncodedChat& chat);

// The samples made of a store of conversations; a sample holds one or more whole conversations. Each conversation is a
// separate segment with positions from 0, so attention stays inside it and its loss does not depend on the others. A
// conversation may have at most layout.columns + 1 tokens.
class ChatSamples final : public SampleStream {
 public:
  ChatSamples(std::shared_ptr<const ChatStore> store, const ChatLayout& layout);
  int64_t count() const override { return spread_.samples(); }
  Sample sample(int64_t i) const override;
  std::string origin(int64_t i) const override;
  int64_t token_count() const override { return store_->tokens(); }
  bool ragged() const override { return !layout_.pack; }

 private:
  std::shared_ptr<const ChatStore> store_;
  ChatLayout layout_;
  ChatSpread spread_;
};

}  // namespace ravine

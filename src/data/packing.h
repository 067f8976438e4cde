// Cuts token documents into samples of equal length.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/stream.h"
#include "data/token_store.h"

namespace ravine {

// The settings of PackedSamples.
struct PackOptions {
  int64_t columns = 0;  // number of columns S of a sample
  bool pack = true;     // false: a sample holds one document, or a part of one
  // With `pack`: true gives the last column of a full sample a label, the first token of the next sample. false: the
  // last column predicts nothing.
  bool predict_next_block = true;
  bool document_attention = false;  // attention and positions stay inside a document
  int32_t padding = 0;              // id of padding columns
};

// The samples of tokenized documents, in the order of the documents.
// Packed: sample i takes the S+1 tokens from i * S on, and column t predicts the token after it. So every token but the
// first is predicted exactly once. The last sample is padded at its end.
// With document_attention, the tokens of a document are a segment, positions begin at 0 in each, and the last token of
// a document predicts nothing.
// Not packed: each document is cut separately in the same way. Const members are thread-safe.
class PackedSamples final : public SampleStream {
 public:
  PackedSamples(std::shared_ptr<const TokenDocuments> tokens, const PackOptions& options);
  int64_t count() const override { return count_; }
  Sample sample(int64_t i) const override;
  std::string origin(int64_t i) const override;
  int64_t token_count() const override { return tokens_->tokens(); }
  bool ragged() const override { return !options_.pack; }

 private:
  struct Window {
    int64_t begin = 0, columns = 0;  // the columns predict the tokens begin+1 .. begin+columns
  };
  Window window(int64_t i) const;
  std::shared_ptr<const TokenDocuments> tokens_;
  PackOptions options_;
  int64_t count_ = 0;
  std::vector<int64_t> sample_ends_;  // not packed: number of samples up to and including each document
};

}  // namespace ravine

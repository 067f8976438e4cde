// Cuts a store of tokens into samples of equal length.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/stream.h"
#include "data/token_store.h"

namespace ravine {

struct PackOptions {
  int64_t columns = 0;              // S of a sample
  bool pack = true;                 // false: a sample holds one document, or a part of it
  bool predict_next_block = true;   // packed: the last token of a full sample has a label, from the sample behind it
  bool document_attention = false;  // attention and positions stay inside documents
  int32_t padding = 0;              // id of padding columns
};

// The samples of a store, in order. Packed: sample i takes the S+1 tokens from i·S on, its S columns predict the S after the
// first, so every token but the first is predicted exactly once; the last sample is padded behind. With document_attention a
// document's tokens are a segment, positions begin at 0 in each, and its last token predicts nothing. Not packed: each document
// is cut by itself in the same way. Const members may be called by several threads.
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
    int64_t begin = 0, columns = 0;  // columns predict the tokens begin+1 .. begin+columns
  };
  Window window(int64_t i) const;
  std::shared_ptr<const TokenDocuments> tokens_;
  PackOptions options_;
  int64_t count_ = 0;
  std::vector<int64_t> sample_ends_;  // not packed: samples up to and with each document
};

}  // namespace ravine

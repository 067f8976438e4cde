// Megatron's GPT dataset: which tokens sample i has, for a seed, a split, a number of samples. Bit for bit as Megatron-core
// 0.16 and as Megatron-LM of November 2023 give it.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/indexed/indexed_file.h"
#include "data/megatron/index_cache.h"
#include "data/megatron/indices.h"
#include "data/megatron/split.h"
#include "data/sample.h"

namespace ravine {

struct GptOptions : MegatronOptions {
  MegatronOrder order = MegatronOrder::core;
  int64_t seed = 1234;         // 0 to 2^32-1
  bool partial_valid = false;  // core: the last, padded sample of the validation split, too
  bool extra_token = true;     // false (core): samples of S tokens without overlap; the last column predicts nothing
  int64_t vocabulary = 0;      // ids are expected below it (a few are looked at on opening); 0: any
  std::string tokenizer;       // core: identifiers that name the index files (see GptDescription)
};

// One sample as Megatron's loader returns it. Padding has token 0, label 0 and no loss.
struct GptSample {
  std::vector<int32_t> tokens, labels, positions;  // S each
  std::vector<uint8_t> loss_mask;
  std::vector<TokenSpan> segments;  // columns that see each other (causally); padding at the end is in the last
  int64_t padding = 0;              // columns at the end that are none
};

// Rows of the sample's attention mask, S rows of (S+7)/8 bytes: bit k of row c (least significant first) is 1 if column c does
// not see column k.
std::vector<uint8_t> hidden_bits(const GptSample& sample);

// A split of one file. Const members may be called by several threads.
class GptDataset {
 public:
  // samples below 0: one epoch. Builds the indices, or maps them from the cache.
  GptDataset(std::shared_ptr<const IndexedFile> file, MegatronSplit split, SplitRange range, int64_t samples,
             const GptOptions& options);
  int64_t size() const { return static_cast<int64_t>(shuffle_.view().size()); }  // all samples of all epochs
  int64_t tokens() const { return tokens_; }                                     // of one epoch
  GptSample sample(int64_t i) const;
  std::string origin(int64_t i) const;
  std::span<const int32_t> document_index() const { return documents_.view(); }
  std::span<const int32_t> sample_index() const { return samples_.view(); }  // pairs
  std::span<const uint32_t> shuffle_index() const { return shuffle_.view(); }
  const std::string& description() const { return description_; }

 private:
  std::array<int64_t, 4> place(int64_t i) const;  // first document place and token, last likewise
  std::shared_ptr<const IndexedFile> file_;
  GptOptions options_;
  SplitRange range_;
  int64_t tokens_ = 0;
  std::string description_;
  IndexArray<int32_t> documents_, samples_;
  IndexArray<uint32_t> shuffle_;
};

// A split of a run: one dataset, or several blended. Const members may be called by several threads.
class GptBlend {
 public:
  int64_t size() const { return blended_ ? static_cast<int64_t>(dataset_.view().size()) : parts_[0]->size(); }
  int64_t tokens() const;  // of one epoch of each part
  GptSample sample(int64_t i) const;
  std::string origin(int64_t i) const;
  int64_t part_of(int64_t i) const;  // number of the dataset
  const std::vector<std::unique_ptr<GptDataset>>& parts() const { return parts_; }
  bool blended() const { return blended_; }
  std::span<const int16_t> dataset_index() const { return dataset_.view(); }
  std::span<const int64_t> dataset_sample_index() const { return sample_.view(); }
  const std::string& description() const { return description_; }

 private:
  friend struct GptBuilder;
  std::pair<size_t, int64_t> place(int64_t i) const;
  std::vector<std::unique_ptr<GptDataset>> parts_;
  bool blended_ = false;
  IndexArray<int16_t> dataset_;
  IndexArray<int64_t> sample_;
  std::string description_;
};

// train, valid and test; null where the split has weight 0 or 0 samples are wanted. Sizes below 0: one epoch. Weights: none for
// a single prefix or (core) a blend by size. What does not fit together is a UserError.
using GptSplits = std::array<std::unique_ptr<GptBlend>, 3>;
GptSplits build_gpt_splits(const std::vector<std::string>& prefixes, const std::vector<double>& weights,
                           const std::array<int64_t, 3>& sizes, const GptOptions& options);

}  // namespace ravine

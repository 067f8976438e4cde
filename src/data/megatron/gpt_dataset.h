// Megatron's GPT dataset: the tokens of sample i for a seed, a split and a number of samples. The results are bit for
// bit equal to Megatron-core 0.16 and Megatron-LM of November 2023.
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

// The settings of GptDataset and build_gpt_splits().
struct GptOptions : MegatronOptions {
  MegatronOrder order = MegatronOrder::core;
  int64_t seed = 1234;         // 0 to 2^32-1
  bool partial_valid = false;  // core: the validation split includes its last, padded sample
  bool extra_token = true;     // false (core): samples of S tokens without overlap; the last column predicts nothing
  int64_t vocabulary = 0;      // token ids must be below it (opening checks some of them); 0: any id is allowed
  std::string tokenizer;       // core: identifiers of the tokenizer (GptDescription::tokenizer), for index files
};

// A sample as Megatron's loader returns it. Padding has token 0, label 0 and loss mask 0.
struct GptSample {
  std::vector<int32_t> tokens, labels, positions;  // [S] each
  std::vector<uint8_t> loss_mask;
  // Segments of columns that attend to each other (causally) and to no others. Padding belongs to the last segment.
  std::vector<TokenSpan> segments;
  int64_t padding = 0;  // number of padding columns at the end
};

// Returns the attention mask of a sample of S columns as bits: S rows of (S+7)/8 bytes. Bit k of row c (least
// significant first) is 1 if column c does not attend to column k.
std::vector<uint8_t> hidden_bits(const GptSample& sample);

// The samples of one split (train, valid or test) of one pair of token files, in Megatron's order. Const members are
// thread-safe.
class GptDataset {
 public:
  // Builds the indices of the order, or maps them from the cache. range: the sequences of the split. samples: the
  // number of samples needed; below 0: one epoch.
  GptDataset(std::shared_ptr<const IndexedFile> file, MegatronSplit split, SplitRange range, int64_t samples,
             const GptOptions& options);
  int64_t size() const { return static_cast<int64_t>(shuffle_.view().size()); }  // number of samples of all epochs
  int64_t tokens() const { return tokens_; }                                     // number of tokens of one epoch
  GptSample sample(int64_t i) const;
  std::string origin(int64_t i) const;
  std::span<const int32_t> document_index() const { return documents_.view(); }
  // Returns pairs of an index in document_index() and a token offset in this document: the begin of each sample in
  // order, and the end of the last.
  std::span<const int32_t> sample_index() const { return samples_.view(); }
  std::span<const uint32_t> shuffle_index() const { return shuffle_.view(); }
  const std::string& description() const { return description_; }

 private:
  // Returns where sample i begins and ends: {document, token, document, token}, a document by its index in documents_.
  std::array<int64_t, 4> position(int64_t i) const;
  std::shared_ptr<const IndexedFile> file_;
  GptOptions options_;
  SplitRange range_;
  int64_t tokens_ = 0;
  std::string description_;
  IndexArray<int32_t> documents_, samples_;
  IndexArray<uint32_t> shuffle_;
};

// One split (train, valid or test) of the data of a run in Megatron's order: one GptDataset, or several that are mixed
// by weights. Const members are thread-safe.
class GptBlend {
 public:
  int64_t size() const { return blended_ ? static_cast<int64_t>(dataset_.view().size()) : parts_[0]->size(); }
  int64_t tokens() const;  // number of tokens in one epoch of all parts
  GptSample sample(int64_t i) const;
  std::string origin(int64_t i) const;
  int64_t part_of(int64_t i) const;  // returns the index in parts() of the dataset that has sample i
  const std::vector<std::unique_ptr<GptDataset>>& parts() const { return parts_; }
  bool blended() const { return blended_; }
  std::span<const int16_t> dataset_index() const { return dataset_.view(); }
  std::span<const int64_t> dataset_sample_index() const { return sample_.view(); }
  const std::string& description() const { return description_; }

 private:
  friend struct GptBuilder;
  std::pair<size_t, int64_t> position(int64_t i) const;
  std::vector<std::unique_ptr<GptDataset>> parts_;
  bool blended_ = false;
  IndexArray<int16_t> dataset_;
  IndexArray<int64_t> sample_;
  std::string description_;
};

// The splits train, valid and test, in this order. Null: the split has weight 0, or no samples are wanted of it.
using GptSplits = std::array<std::unique_ptr<GptBlend>, 3>;
// Opens token files and returns their splits. prefixes: the files; several are blended. weights: one per prefix; empty
// for a single prefix, or (core) for a blend by size. sizes: numbers of samples of train, valid and test; below 0: one
// epoch; 0: the split is null. Arguments that contradict each other are a UserError.
GptSplits build_gpt_splits(const std::vector<std::string>& prefixes, const std::vector<double>& weights,
                           const std::array<int64_t, 3>& sizes, const GptOptions& options);

}  // namespace ravine

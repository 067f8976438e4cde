// Builds the three indices of a Megatron GPT dataset and the two of a blend. Sources:
// megatron/core/datasets/gpt_dataset.py, blended_dataset.py and helpers.cpp.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/indexed/indexed_file.h"
#include "data/megatron/numpy_random.h"

namespace ravine {

// The result of plan_epochs(): how many epochs a dataset repeats, and how they are shuffled.
struct EpochPlan {
  int64_t epochs = 1;
  bool separate_last = false;       // the last epoch is shuffled separately, because less than 80 % of it is needed
  int64_t samples_before_last = 0;  // number of samples before the last epoch, if separate_last
};

// Returns the epochs that give `samples` samples of `length` tokens. tokens: tokens of an epoch, above 0. samples below
// 0: one epoch. extra: 1 if a sample holds one token more than its length, else 0.
EpochPlan plan_epochs(int64_t tokens, int64_t samples, int64_t length, int extra);

// Returns the document index of a GPT dataset: the documents [first, last) once per epoch, shuffled over all epochs. If
// plan.separate_last, the last epoch is shuffled separately and follows the others.
std::vector<int32_t> build_document_index(int64_t first, int64_t last, const EpochPlan& plan, NumpyRandomState& random);

// Returns the number of samples of all epochs of a plan. tokens: of one epoch. partial: the last, incomplete sample is
// counted too; the number is then computed in single precision, as in Megatron.
int64_t sample_count(int64_t tokens, const EpochPlan& plan, int64_t length, int extra, bool partial);

// Returns the sample index of a GPT dataset: the begin of each sample, and the end of the last. The result is samples +
// 1 pairs of an index in `documents` and a token offset in this document. documents: the document index. lengths:
// tokens of all documents as int32, not aligned. The caller checks that every document is in range.
std::vector<int32_t> build_sample_index(std::span<const std::byte> lengths, std::span<const int32_t> documents, int64_t samples,
                                        int64_t length, int extra);

// Returns the shuffle index of a GPT dataset: the numbers 0 .. total-1, with [0, first) and [first, total) shuffled
// separately.
std::vector<uint32_t> build_shuffle_index(int64_t first, int64_t total, NumpyRandomState& random);

// The samples of a blend, in order: for each the dataset and the sample in it.
struct BlendIndex {
  std::vector<int16_t> dataset;
  std::vector<int64_t> sample;  // index of the sample in its dataset
};

// Returns a blend of `size` samples. Each sample is of the dataset that is furthest behind its weight; among equals, of
// the first of them.
BlendIndex build_blend_index(const std::vector<double>& weights, int64_t size);
// Returns a blend of all samples of all datasets, in proportion to their sizes.
BlendIndex build_exhaustive_blend_index(const std::vector<int64_t>& sizes);

}  // namespace ravine

// The three indices of a Megatron GPT dataset and the two of a blend. Sources: megatron/core/datasets/gpt_dataset.py,
// blended_dataset.py and helpers.cpp.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/indexed/indexed_file.h"
#include "data/megatron/numpy_random.h"

namespace ravine {

struct EpochPlan {
  int64_t epochs = 1;
  bool separate_last = false;       // the last epoch is shuffled by itself: less than 80 % of it is needed
  int64_t samples_before_last = 0;  // where it begins among the samples, if separate
};

// How often `tokens` must be gone through for `samples` of `length` tokens; samples below 0: once. `extra`: 1 if a sample holds
// one token more than its length, else 0. tokens > 0.
EpochPlan plan_epochs(int64_t tokens, int64_t samples, int64_t length, int extra);

// [first, last) once per epoch, shuffled; the last epoch apart if it is separate.
std::vector<int32_t> build_document_index(int64_t first, int64_t last, const EpochPlan& plan, NumpyRandomState& random);

// How many samples all epochs give. Partial: the last one, too, as upstream counts it, in single precision.
int64_t sample_count(int64_t tokens, const EpochPlan& plan, int64_t length, int extra, bool partial);

// Where each sample begins: pairs (place in the document index, token of that document), one more than there are samples.
// `lengths` are int32 of all documents, not aligned. Every document must be in range (checked by the caller).
std::vector<int32_t> build_sample_index(std::span<const std::byte> lengths, std::span<const int32_t> documents, int64_t samples,
                                        int64_t length, int extra);

// 0 .. total-1, shuffled in the ranges [0, first) and [first, total).
std::vector<uint32_t> build_shuffle_index(int64_t first, int64_t total, NumpyRandomState& random);

struct BlendIndex {
  std::vector<int16_t> dataset;
  std::vector<int64_t> sample;  // number within the dataset
};

// `size` samples; each comes from the dataset that is furthest behind its weight, the first of equals.
BlendIndex build_blend_index(const std::vector<double>& weights, int64_t size);
// All samples of all datasets, in proportion to their sizes.
BlendIndex build_exhaustive_blend_index(const std::vector<int64_t>& sizes);

}  // namespace ravine

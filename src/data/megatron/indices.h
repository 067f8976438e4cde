// Builds the three indices of a Megatron GPT dataset and the two of a blend. Sources:
// megatron/core/datasets/gpt_dataset.py, blended_dataset.py and helpers.cpp.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/indexed/indexed_file.h"
#include "data/megatron/numpy_random.h"

namespace ravine {

struct EpochPlan {
  int64_t epochs = 1;
  bool separate_last = false;       // the last epoch is shuffled separately, because less than 80 % of it is needed
  int64_t samples_before_last = 0;  // number of samples before the last epoch, if separate
};

// Returns the number of epochs over `tokens` (above 0) for `samples` samples of `length` tokens; samples below 0: one
// epoch. extra: 1 if a sample holds one token more than its length, else 0.
EpochPlan plan_epochs(int64_t tokens, int64_t samples, int64_t length, int extra);

// Returns the documents [first, last) once per epoch, shuffled; the last epoch separately if plan.separate_last.
std::vector<int32_t> build_document_index(int64_t first, int64_t last, const EpochPlan& plan, NumpyRandomState& random);

// Returns the number of samples of all epochs. partial: includes the last, incomplete one, computed in single precision
// as upstream does.
int64_t sample_count(int64_t tokens, const EpochPlan& plan, int64_t length, int extra, bool partial);

// Returns the beginnings of all samples and the end, as samples + 1 pairs (index in the document index, token of this
// document). lengths: int32 of all documents, not aligned. The caller checks that every document is in range.
std::vector<int32_t> build_sample_index(std::span<const std::byte> lengths, std::span<const int32_t> documents, int64_t samples,
                                        int64_t length, int extra);

// Returns 0 .. total-1, shuffled within the ranges [0, first) and [first, total).
std::vector<uint32_t> build_shuffle_index(int64_t first, int64_t total, NumpyRandomState& random);

struct BlendIndex {
  std::vector<int16_t> dataset;
  std::vector<int64_t> sample;  // number within the dataset
};

// Returns a blend of `size` samples. Each comes from the dataset that is furthest behind its weight; among equals the
// first.
BlendIndex build_blend_index(const std::vector<double>& weights, int64_t size);
// Returns a blend of all samples of all datasets, in proportion to their sizes.
BlendIndex build_exhaustive_blend_index(const std::vector<int64_t>& sizes);

}  // namespace ravine

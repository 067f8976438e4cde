// Opens the datasets of a run, as the data section of its config describes them.
#pragma once
#include "data/dataset.h"

namespace ravine {

// Returns the settings of the datasets of a run: the data section of its config, and related options. vocabulary: size
// of the model's vocabulary; 0: the tokenizer's.
DatasetOptions dataset_options(const Config& config, int64_t vocabulary);
bool needs_tokenizer(const DatasetOptions& options);  // true if a source holds text, or the end token must be known

// Opens the training and validation data of a run and tokenizes text; returns when the datasets are complete.
// Text: if no source has a weight, all sources are one stream of documents, cut and shuffled together. With weights,
// each source is a separate stream, and the weights are shares of the samples (data/blend.h). The samples of each epoch
// are shuffled by the seed.
// Conversations (data/instruct): each source is a separate stream; text may be in the same list.
// With `pairs`, every source holds preference records (data/instruct/pair_set.h).
// .bin/.idx prefixes are tokenized text. With a Megatron order, all sources are prefixes.
// Fixed batch files: rows in order, file after file, from the start again after the last one; without shuffling and
// weights. sequence_length must be their number of columns. A list holds either fixed batch files or other sources.
// All files of a source are of one kind. `tokenizer` may be null if no list holds text. Empty data, data too short for
// one prediction, and the errors of source.h, token_store.h and fixed_batches.h are UserErrors.
Datasets open_datasets(const DatasetOptions& options, const Tokenizer* tokenizer);

}  // namespace ravine

// From the data section of a config to the datasets of a run.
#pragma once
#include "data/dataset.h"

namespace ravine {

DatasetOptions dataset_options(const Config& config, int64_t vocabulary);
bool needs_tokenizer(const DatasetOptions& options);  // whether a list holds text, or an end token must be known

// Opens and tokenizes everything; blocks until done.
// Text: when every weight is 1, all sources are one stream of documents, cut and shuffled together; with other weights each
// source is a stream of its own, and weights are shares of the samples (data/blend.h). Shuffling permutes the samples
// of each pass by the seed. Conversations (data/instruct): each source is a stream of its own, and may stand beside text.
// With `pairs` every source holds records of preferences (data/instruct/pair_set.h). .bin/.idx prefixes are taken as text that
// is tokenized already. With a Megatron order all sources are prefixes. Fixed batch files: rows in order, file after file, over
// again at the end; no shuffling, no weights; sequence_length must be their number of columns. They do not mix with others
// within a list. A source is of one kind. `tokenizer` may be null when no list holds text. Empty data, data too short for one
// prediction and all errors of source.h, token_store.h and fixed_batches.h are UserErrors.
Datasets open_datasets(const DatasetOptions& options, const Tokenizer* tokenizer);

}  // namespace ravine

// Datasets of MindRecord files (data.order=mindspore), as MindFormers reads them by MindDataset and
// CausalLanguageModelDataset.
//
// A row has S + 1 ids under input_ids: the first S are the input, the last S are predicted. A row may have labels (or
// target_ids), at the same positions as their ids. Nothing is predicted after an id equal to data.pad, or if a label is
// -100.
//
// With data.shuffle, every epoch has its own order: std::shuffle of libstdc++ with std::default_random_engine(seed +
// epoch), epochs from 1, applied to the stored order. With mindspore-whole (MindDataset without num_shards), it is
// applied to the order of the previous epoch. An epoch has data.samples rows of this order; rows at its end that do not
// fill a batch are left out. Measured with MindSpore 2.7.
#pragma once
#include "data/dataset.h"

namespace ravine {

// Opens the datasets of MindRecord files in options.train and options.valid.
Datasets open_mindrecord_datasets(const DatasetOptions& options);

}  // namespace ravine

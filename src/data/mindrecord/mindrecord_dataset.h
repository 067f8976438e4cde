// Training on MindRecord files (data.order=mindspore) as MindFormers trains on them: MindDataset and
// CausalLanguageModelDataset. A row has S + 1 ids under input_ids, of which the first S are read and the last S predicted, and
// may have labels (target_ids), that stand at the places of their ids. Behind an id that is data.pad, and where a label is -100, nothing is
// predicted.
//
// With data.shuffle every epoch has an order of its own: std::shuffle of libstdc++ with std::default_random_engine(seed + epoch),
// epochs from 1, on the stored order. mindspore-whole, which is MindDataset without num_shards, goes from the order of the epoch
// before. data.samples of these are an epoch. Rows that fill no batch at its end are left out. Measured with MindSpore 2.7.
#pragma once
#include "data/dataset.h"

namespace ravine {

Datasets open_mindrecord_datasets(const DatasetOptions& options);

}  // namespace ravine

// Joins dumps of different layouts (ranks, micro batches), as if one rank had written each with one micro batch.
//
// The records of one call and tensor, over all ranks and micro batches, are pieces of one tensor. Pieces are parts of
// rows (data ranks, micro batches, sequence parallelism), of columns (tensor ranks), of a flat buffer (ZeRO), layers
// (pipeline ranks), or experts. The joined figures are exact for count, extremes and zeros; l1, l2, mean and std are
// f64 sums. Elements are counted once. Pieces with the same checksums are one piece on several ranks, if only then both
// sides have the same number of elements. The order of elements among pieces is unknown. So checksums without order are
// used, and files are compared only if both sides have one piece.
//
// If no such count fits, the pieces are terms of a sum (a partial product of a tensor rank, a weight's gradient of one
// micro batch). Such a call is treated as a call of one side alone, so that its readers are compared. Gradients of
// weights and tensors of an update are left out: `gradient` and `state` have their sums.
#pragma once
#include "probe/dump_log.h"

namespace ravine {

const RankDump* rank_in(const Dump& dump, int rank);  // null: there is none

// True if the common ranks have the same mesh, ZeRO stage and micro batches, so that records can be paired directly.
bool same_layout(const Dump& a, const Dump& b);

// Two joined runs.
struct WholeRuns {
  RankDump a, b;  // rank 0; micro batch 1; in the order of layers
};
// Joins two dumps. A UserError if a dump lacks ranks of its mesh.
WholeRuns whole_runs(const Dump& a, const Dump& b);

}  // namespace ravine

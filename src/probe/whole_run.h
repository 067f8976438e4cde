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

const RankDump* rank_in(const Dump& dump, int rank);  // returns the dump of a rank; null if there is none

// True if the ranks that both dumps have were run with the same mesh, ZeRO stage and micro batches. Their records can
// then be paired directly.
bool same_layout(const Dump& a, const Dump& b);

// Two dumps, each joined over its ranks and micro batches: the result of whole_runs().
struct WholeRuns {
  RankDump a, b;  // all records are of rank 0 and micro batch 1, in the order of layers
};
// Joins the records of two dumps of different layouts over ranks and micro batches, so that they can be paired. A
// UserError if a dump lacks ranks of its mesh.
WholeRuns whole_runs(const Dump& a, const Dump& b);

}  // namespace ravine

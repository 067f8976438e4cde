// Two dumps of different layouts (ranks, micro batches), each as if one rank had made it with one micro batch.
//
// The records of one call and tensor of all ranks and micro batches are pieces of one tensor: parts of rows (data ranks, micro
// batches, sequence parallelism), of columns (tensor ranks), of a flat buffer (ZeRO), layers (pipeline ranks), experts. Put
// together their figures are exact for count, extremes and zeros, and sums in f64 for l1, l2, mean and std. Elements are
// counted once: pieces with the same checksums are one piece that several ranks hold, where that alone makes as many elements
// on both sides. The order of elements among pieces is not known, so checksums are those that no order changes, and files are
// compared only where both sides have one piece.
//
// Where no such count fits, the pieces are sums (a partial product of a tensor rank, a weight's gradient of one micro batch).
// Such a call is one that either side has alone, so that its readers are held against each other. Gradients of weights, and
// tensors of an update, are left out alone: `gradient` and `state` have the sums.
#pragma once
#include "probe/dump_log.h"

namespace ravine {

const RankDump* rank_in(const Dump& dump, int rank);  // null: none

// Mesh, ZeRO and micro batches of the ranks that both have are the same, so that records have partners as they are.
bool same_layout(const Dump& a, const Dump& b);

struct WholeRuns {
  RankDump a, b;  // rank 0; micro batch 1; in the order of layers
};
// A UserError where a dump has not all the ranks of its mesh.
WholeRuns whole_runs(const Dump& a, const Dump& b);

}  // namespace ravine

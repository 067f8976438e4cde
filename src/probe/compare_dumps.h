// Two dumps, or two traces, held against each other by meaning: which call made the first difference that its inputs do not
// explain.
//
// Tensors are paired by what they are (rank, step, micro batch, phase, path, op, number of the call, tensor, side), never by
// their order; a call that reads other tensors than its namesake is another call. What has no partner is reported: a step, phase or
// rank of which nothing has one is no agreement; of single calls see below. Of a pair the error is |b - a| / |a| in L2 norms where
// both dumps hold the tensors; where they hold statistics, the least error that these allow; of checksums only whether it is 0.
//
// Of a call the error of what it writes is held against two bounds added up, those of its kernel (kernels/error_bounds.h): its
// own roundings, in both runs, and what it inherits from the errors of what it reads. A call that is
// beyond both is a culprit: its inputs agree, or differ too little for what it writes. The search goes on with the errors that it
// has made; one culprit stands for all calls of an op with the same fault. What a call writes is not judged where one of its
// inputs is a culprit, or where another choice (of experts, of tokens) was made before it. Numbers of its formula that differ
// (DumpRecord::settings), or types under the same arithmetic, make it one whatever the bounds.
//
// Where a run was made again for it (substitution.h), a call is a culprit where A's or B's output is not what our kernel makes of
// that side's inputs, and no bound on what is inherited counts: what both sides compute as ours does is struck off.
// Where it cannot be known, and no bound of a kernel tells, what a rounding of the parameters moves counts (spread.h).
//
// Of another program's trace (torch_trace.h) a call has what its modules show: its partner may read more, whose errors are then
// the largest so far; settings of updates are compared by parameter.
//
// Runs on other ranks, or with other micro batches, are held against each other as wholes (whole_run.h).
//
// What a call reads is traced to the call that made it, by checksum (producers.h). Made by a call that the other dump lacks (a
// rounding to bf16, an op in parts): the two are held against 256 u, and the call without a partner is the culprit beyond that.
// Made by different calls in the two: it is the culprit beyond 256 u. Made by no call: ids, labels, tables, the rates of an update,
// parameters at the first step that both have, and those whose values were the same behind the step before, have to be the same
// bits, whatever statistics say.
#pragma once
#include <string>

#include "base/json.h"
#include "probe/comparison.h"
#include "probe/substitution.h"

namespace ravine {

// A UserError where no tensor of one is in the other. substituted: what a run of their steps has shown; decides before any bound
// on what is inherited does. Null: nothing.
Comparison compare_dumps(Dump a, Dump b, const Substituted* substituted = nullptr);
// Files of `ravine trace`, any safetensors files, or folders of .npy files (named_tensors.h), whose tensors are paired by name: no call is known, so the first in the
// order of the pass that differs by more than 256 u of its type is the culprit.
Comparison compare_traces(const std::string& a, const std::string& b);

// Fields: equal, verdict, culprit (the first of culprits), culprits, pairs, unmatched, damaged_lines, bitwise_equal, layouts_differ,
// substituted, by_spread, inherits (calls that were struck off).
Json comparison_json(const Comparison& c);
std::string pairs_csv(const Comparison& c);  // a header, then a line for each pair

}  // namespace ravine

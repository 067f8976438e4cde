// Compares two dumps, or two traces: finds the first calls whose differences their inputs do not explain.
//
// Pairs. Tensors are paired by meaning (rank, step, micro batch, phase, path, op, number of the call, tensor, side),
// not by order. A call with other inputs than its namesake is another call. Tensors without a partner are reported. A
// step, phase or rank without any partner means no agreement; single calls see below. The error of a pair is |b - a| /
// |a| in L2 norms if both dumps hold the tensors. With statistics it is the least error that they allow. With checksums
// only equality is known.
//
// Bounds. The error of an output is compared with the sum of two bounds of its kernel (kernels/error_bounds.h): its own
// roundings in both runs, and the errors inherited from its inputs. A call above the sum is a culprit. The search
// continues with the errors of the culprit. One culprit stands for all calls of an op with the same fault. An output is
// not judged if an input of its call is a culprit, or if another choice (of experts, of tokens) was made before. If
// numbers of the formula differ (DumpRecord::settings), or types in the same arithmetic, the call is a culprit in any
// case.
//
// Substitution. A run may be repeated for the comparison (substitution.h). A call is then a culprit if the output of A
// or B differs from the result of Ravine's kernel on the same inputs. Inherited bounds are then ignored: a call that
// both sides compute as Ravine's kernel does is no culprit. If no kernel bound is known, the effect of rounded
// parameters is the bound (spread.h).
//
// Traces. A trace of another program (torch_trace.h) has the tensors of its modules only. A partner may read more
// tensors, whose errors are then the largest error up to there. Settings of updates are compared by parameter.
//
// Layouts. Runs with other ranks or micro batches are compared as wholes (whole_run.h).
//
// Inputs. The call that made an input is found by checksum (producers.h). If only one dump has this call (a rounding to
// bf16, an op in parts), the input is compared with 256 u; above, the call without a partner is the culprit. If
// different calls made it in the two dumps, the reading call is the culprit above 256 u. If no call made it, both sides
// must have the same bits, whatever the statistics are. These inputs are ids, labels, tables, the scalars of an update,
// parameters at the first common step, and parameters whose values were equal after the previous step.
#pragma once
#include <string>

#include "base/json.h"
#include "probe/comparison.h"
#include "probe/substitution.h"

namespace ravine {

// Compares two dumps and returns pairs, culprits and a verdict. A UserError if they have no tensor in common.
// substituted: the results of steps that were repeated with Ravine's kernels (substitution.h), which replace inherited
// bounds; null: no steps were repeated.
Comparison compare_dumps(Dump a, Dump b, const Substituted* substituted = nullptr);
// Compares the tensors of two files of `ravine trace`, safetensors files, or folders of .npy files (named_tensors.h).
// Tensors are paired by name. Calls are unknown. So the culprit is the first tensor, in the order of the pass, that
// differs by more than 256 u; u is the unit roundoff of its type.
Comparison compare_traces(const std::string& a, const std::string& b);

// Returns the result of a comparison as a JSON object. Its fields are equal, verdict, culprit (the first of culprits),
// culprits, pairs, unmatched, damaged_lines, bitwise_equal, layouts_differ, substituted, by_spread, inherits (calls
// that substitution cleared).
Json comparison_json(const Comparison& c);
std::string pairs_csv(const Comparison& c);  // returns the pairs of tensors as CSV: a header, then one line per pair

}  // namespace ravine

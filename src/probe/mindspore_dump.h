// Reads a dump of MindSpore (MINDSPORE_DUMP_CONFIG), with statistics or arrays.
//
//   DIR/rank_0/NET/GRAPH/ITERATION/statistic.csv     a row per tensor; iterations count from 0, Ravine's steps from 1
//         ../MatMul.Default_network-.._MatMul-op0.TASK.STREAM.TIME.input.0.DefaultFormat.Float32.npy
//
// Calls are identified by the full name and the type of their op, without ids and times. Times give the order.
// Parameters are those after the step.
#pragma once
#include "probe/dump_log.h"

namespace ravine {

// True if the folder is a dump, the folder of a rank in it, or a folder below, down to an iteration.
bool is_mindspore_dump(const std::string& folder);

// Reads a dump under its own names, which two such dumps have in common. Arrays are read one by one. A mistake in the
// dump is a UserError.
Dump read_mindspore_names(const std::string& folder);
// Reads the parameters and moments of a dump that have a name in Ravine (from MindSpore Transformers' names), as
// `state`. Other tensors are only counted.
Dump read_mindspore_parameters(const std::string& folder);

}  // namespace ravine

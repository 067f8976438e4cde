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

// True if the folder is a dump of MindSpore, the folder of one of its ranks, or a folder below, down to an iteration.
bool is_mindspore_dump(const std::string& folder);

// Reads a dump of MindSpore. Calls keep MindSpore's names, so that two dumps of MindSpore can be compared. Arrays are
// read one by one. A mistake in the dump is a UserError.
Dump read_mindspore_names(const std::string& folder);
// Reads only the parameters and optimizer moments of a dump of MindSpore, as `state` records under Ravine's names (from
// MindSpore Transformers' names). All other tensors are only counted (Dump::aside).
Dump read_mindspore_parameters(const std::string& folder);

}  // namespace ravine

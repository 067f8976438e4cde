// A dump of MindSpore (MINDSPORE_DUMP_CONFIG), with statistics or arrays.
//
//   DIR/rank_0/NET/GRAPH/ITERATION/statistic.csv     a row for each tensor; iterations count from 0, our steps from 1
//                                  MatMul.Default_network-.._MatMul-op0.TASK.STREAM.TIME.input.0.DefaultFormat.Float32.npy
//
// Calls are known by the full name of their op and the type of it, without ids and times; the order is that of the times.
// Parameters are those of behind the step.
#pragma once
#include "probe/dump_log.h"

namespace ravine {

// The dump's folder, a rank's, or one down to an iteration's.
bool is_mindspore_dump(const std::string& folder);

// Under its own names, which two such dumps have in common. Whatever is wrong with the dump is a UserError. Arrays are read one
// by one.
Dump read_mindspore_names(const std::string& folder);
// Of it the parameters and moments whose names of MindSpore Transformers have one of ours, as `state`; the others are counted.
Dump read_mindspore_parameters(const std::string& folder);

}  // namespace ravine

// Reads a dump of PTDBG (ptdbg_ascend, the older msprobe) or of MindSpore's api_dump: api_stack_dump.pkl. Despite its
// name the file is text with a JSON list per line: ["Functional_linear_0_forward_input.0", 1, [] or md5,
// "torch.float32", [2, 3], [max, min, mean], ..]. The stack of a call is ["Functional_linear_0_forward_stack_info",
// [..]]. A real pickle is rejected, and never executed. Arrays are in api_stack_dump/NAME.npy next to it.
//
// Records have msprobe's names of API calls (Functional.linear.0), so dumps of both programs can be compared.
#pragma once
#include "probe/dump_log.h"

namespace ravine {

// True if the path is a file api_stack_dump.pkl, or a folder that has it, directly or in folders rank0, rank1, ..
bool is_ptdbg_dump(const std::string& path);
// Reads a dump of PTDBG or of MindSpore's api_dump. A damaged line is a UserError with its number.
Dump read_ptdbg_dump(const std::string& path);

}  // namespace ravine

// A dump of PTDBG (ptdbg_ascend, the older msprobe) and of MindSpore's api_dump: api_stack_dump.pkl. The file is text, whatever
// its name says: a JSON list per line, ["Functional_linear_0_forward_input.0", 1, [] or md5, "torch.float32", [2, 3],
// [max, min, mean], ..] and, for a call's stack, ["Functional_linear_0_forward_stack_info", [..]]. A real pickle is refused, and
// never executed. Arrays lie beside it, in api_stack_dump/NAME.npy.
//
// Records have msprobe's names of calls of the API (Functional.linear.0), so both programs' dumps compare.
#pragma once
#include "probe/dump_log.h"

namespace ravine {

bool is_ptdbg_dump(const std::string& path);  // the file, or a folder with it, or with rank0/..
// A damaged line is a UserError with its number.
Dump read_ptdbg_dump(const std::string& path);

}  // namespace ravine

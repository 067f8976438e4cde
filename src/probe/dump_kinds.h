// The program of a dump, and reading two dumps with comparable names. If one is Ravine's or a PyTorch trace, both have
// Ravine's names. If both are of another program, both have its names.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "base/dtype.h"
#include "probe/dump_log.h"

namespace ravine {

// The program that has written a dump.
enum class DumpKind : uint8_t { ravine, torch_trace, msprobe, mindspore, ptdbg };
constexpr auto names_of(DumpKind) {
  using enum DumpKind;
  return std::to_array<ValueName<DumpKind>>({{ravine, "ravine"},
                                             {torch_trace, "tools/trace_torch.py"},
                                             {msprobe, "msprobe"},
                                             {mindspore, "MindSpore"},
                                             {ptdbg, "PTDBG"}});
}

// Returns the program that has written the dump at a path; empty if it is no dump.
std::optional<DumpKind> dump_kind(const std::string& path);

// Reads a dump of this kind. The records of another program's dump have that program's names of calls.
Dump read_dump_of(const std::string& path, DumpKind kind);

// Reads two dumps of any kinds with comparable names of calls. If one is Ravine's or a PyTorch trace, both get Ravine's
// names; else both have their program's own names. Kinds without common names are a UserError (graphs of MindSpore and
// modules of PyTorch; PyTorch's API and Ravine).
std::pair<Dump, Dump> read_dumps(const std::string& a, const std::string& b);

}  // namespace ravine

// The program of a dump, and reading two dumps with comparable names. If one is Ravine's or a PyTorch trace, both have
// Ravine's names. If both are of another program, both have its names.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "base/dtype.h"
#include "probe/dump_log.h"

namespace ravine {

enum class DumpKind : uint8_t { ravine, torch_trace, msprobe, mindspore, ptdbg };
constexpr auto names_of(DumpKind) {
  using enum DumpKind;
  return std::to_array<ValueName<DumpKind>>({{ravine, "ravine"},
                                             {torch_trace, "tools/trace_torch.py"},
                                             {msprobe, "msprobe"},
                                             {mindspore, "MindSpore"},
                                             {ptdbg, "PTDBG"}});
}

std::optional<DumpKind> dump_kind(const std::string& path);  // empty: no dump

// Reads a dump; a dump of another program has its own names.
Dump read_dump_of(const std::string& path, DumpKind kind);

// Reads two dumps. A UserError if they have no names in common (graphs of MindSpore and modules of PyTorch; PyTorch's
// API and Ravine).
std::pair<Dump, Dump> read_dumps(const std::string& a, const std::string& b);

}  // namespace ravine

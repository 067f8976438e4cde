// Which program a dump is of, and how two are read so that they compare: under our names where one is ours or a PyTorch trace,
// under those of the other program where both are of one.
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

std::optional<DumpKind> dump_kind(const std::string& path);  // none: no dump

// Of a program with names of its own under these.
Dump read_dump_of(const std::string& path, DumpKind kind);

// A UserError where the two have no names in common (graphs of MindSpore and modules of PyTorch; the API of PyTorch and ours).
std::pair<Dump, Dump> read_dumps(const std::string& a, const std::string& b);

}  // namespace ravine

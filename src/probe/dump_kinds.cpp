#include "probe/dump_kinds.h"

#include <algorithm>

#include "base/error.h"
#include "probe/mindspore_dump.h"
#include "probe/msprobe_dump.h"
#include "probe/ptdbg_dump.h"
#include "probe/torch_trace.h"

namespace ravine {
namespace {

bool has_our_names(DumpKind kind) { return kind == DumpKind::ravine || kind == DumpKind::torch_trace; }

Dump read_kind(const std::string& path, DumpKind kind, bool own_names) {
  switch (kind) {
    case DumpKind::ravine:
      return read_dump(path);
    case DumpKind::torch_trace:
      return read_torch_trace(path);
    case DumpKind::msprobe:
      return own_names ? read_msprobe_names(path) : read_msprobe_modules(path);
    case DumpKind::mindspore:
      return own_names ? read_mindspore_names(path) : read_mindspore_parameters(path);
    case DumpKind::ptdbg:
      return read_ptdbg_dump(path);
  }
  fail("no such kind of dump");
}

void refuse_without_records(const Dump& dump, const std::string& path, DumpKind kind) {
  if (std::any_of(dump.ranks.begin(), dump.ranks.end(), [](const RankDump& r) { return !r.records.empty(); })) return;
  throw UserError(
      dump.aside.empty() ? "nothing in it" : dump.aside.front(), path,
      "calls of a program's API can be compared with the same program only; modules and parameters also have names in Ravine",
      kind == DumpKind::msprobe ? "record it at level L0 or mix, or give another dump of msprobe"
                                : "give two dumps of that program");
}

}  // namespace

std::optional<DumpKind> dump_kind(const std::string& path) {
  if (is_dump(path)) return DumpKind::ravine;
  if (is_torch_trace(path)) return DumpKind::torch_trace;
  if (is_msprobe_dump(path)) return DumpKind::msprobe;
  if (is_ptdbg_dump(path)) return DumpKind::ptdbg;
  if (is_mindspore_dump(path)) return DumpKind::mindspore;
  return {};
}

Dump read_dump_of(const std::string& path, DumpKind kind) { return read_kind(path, kind, true); }

std::pair<Dump, Dump> read_dumps(const std::string& a, const std::string& b) {
  const auto of_a = dump_kind(a), of_b = dump_kind(b);
  require(of_a && of_b, "read_dumps: no dump");
  const bool own_names = !has_our_names(*of_a) && !has_our_names(*of_b);
  const bool api = *of_a == DumpKind::ptdbg || *of_b == DumpKind::ptdbg;
  if (api && !own_names)
    throw UserError("a dump of PTDBG", *of_a == DumpKind::ptdbg ? a : b,
                    "it has calls of PyTorch's API, which belong to no module: none is in ours",
                    "record modules with msprobe at level L0, or give another dump of PTDBG or msprobe at L1");
  std::pair<Dump, Dump> out{read_kind(a, *of_a, own_names), read_kind(b, *of_b, own_names)};
  refuse_without_records(out.first, a, *of_a);
  refuse_without_records(out.second, b, *of_b);
  return out;
}

}  // namespace ravine

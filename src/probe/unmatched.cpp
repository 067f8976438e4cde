#include "probe/unmatched.h"

#include <fmt/format.h>

#include "base/counted.h"

namespace ravine {

void Unmatched::add(const char* side, int rank, const DumpRecord& r) {
  const std::string at = group(rank, r);
  names_[{side, at}].push_back(fmt::format("{}, micro batch {}, {} {}{}: {} ({})", at, r.micro, r.path, r.op,
                                           r.n > 0 ? fmt::format("[{}]", r.n) : "", r.tensor, r.output ? "written" : "read"));
}

std::vector<std::string> Unmatched::words(const std::set<std::string>& paired, std::vector<std::string>& uncovered) const {
  std::vector<std::string> out;
  for (const auto& [key, names] : names_) {
    const auto& [side, group] = key;
    if (!paired.contains(group) && !group.ends_with(name(Phase::recompute)))
      out.push_back(uncovered.emplace_back(
          fmt::format("{}: {}, only in {}", group, counted(static_cast<int64_t>(names.size()), "tensor"), side)));
    else
      for (const std::string& one : names) out.push_back(fmt::format("{}, only in {}", one, side));
  }
  return out;
}

std::string Unmatched::group(int rank, const DumpRecord& r) {
  return fmt::format("rank {}, step {}, {}", rank, r.step, name(r.phase));
}

}  // namespace ravine

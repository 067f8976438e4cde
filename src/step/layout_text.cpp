// The layout as text for the log at the start of a run.
#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

#include "base/narrow_option.h"
#include "parallel/stage.h"
#include "step/layout.h"

namespace ravine {
namespace {

int chunks_of(const Config& c) {
  return c.parallel.pipeline > 1 ? narrow_option<int>(c.parallel.virtual_stages, "parallel.virtual") : 1;
}

// Returns "0 2 4 6"; "0 2 .. 126" for more than eight ranks.
std::string listed(const std::vector<int>& ranks) {
  if (ranks.size() <= 8) return fmt::format("{}", fmt::join(ranks, " "));
  return fmt::format("{} {} .. {}", ranks[0], ranks[1], ranks.back());
}

// Returns "layers 0-5 and the head" for blocks [begin, end). The first and the last block of the model are not layers.
std::string blocks_text(const BlockRange& r, size_t blocks) {
  bool first = r.begin == 0, last = r.end == blocks;
  size_t from = r.begin - (first ? 0 : 1), to = r.end - 1 - (last ? 1 : 0);  // layers [from, to)
  std::string layers = to <= from       ? "no layer"
                       : to - from == 1 ? fmt::format("layer {}", from)
                                        : fmt::format("layers {}-{}", from, to - 1);
  return fmt::format("{}{}{}", first ? "the embedding and " : "", layers, last ? " and the head" : "");
}

}  // namespace

std::vector<int64_t> layers_of_parts(const Model& model, const Config& c) {
  std::vector<int64_t> out;
  std::vector<BlockRange> parts =
      split_model(model, narrow_option<int>(c.parallel.pipeline * chunks_of(c), "parallel.virtual"), c.parallel.stage_layers);
  for (size_t p = 0; p < parts.size(); ++p)
    out.push_back(static_cast<int64_t>(parts[p].end - parts[p].begin) - (p == 0) - (p + 1 == parts.size()));
  return out;
}

std::vector<std::string> mesh_lines(const Config& c, const RunLayout& layout, const Model& model,
                                    const std::vector<std::string>& hosts) {
  const Mesh& m = layout.mesh;
  std::vector<std::string> out;
  std::vector<BlockRange> parts = split_model(model, m.pipeline * chunks_of(c), c.parallel.stage_layers);
  constexpr int kMost = 16;
  for (int stage = 0; m.pipeline > 1 && stage < m.pipeline; ++stage) {
    if (m.pipeline > kMost && stage >= kMost / 2 && stage < m.pipeline - kMost / 2) {
      if (stage == kMost / 2) out.push_back("..");
      continue;
    }
    std::vector<std::string> what, where;
    for (size_t p = static_cast<size_t>(stage); p < parts.size(); p += static_cast<size_t>(m.pipeline))
      what.push_back(blocks_text(parts[p], model.blocks().size()));
    int begin = rank_of(m, {stage, 0, 0}), count = m.data * m.tensor;
    for (int r = begin; r < begin + count && static_cast<size_t>(r) < hosts.size(); ++r)
      if (std::find(where.begin(), where.end(), hosts[static_cast<size_t>(r)]) == where.end())
        where.push_back(hosts[static_cast<size_t>(r)]);
    std::vector<int> ranks(static_cast<size_t>(count));
    std::iota(ranks.begin(), ranks.end(), begin);
    out.push_back(fmt::format("stage {}: {}, on rank{} {}{}", stage, fmt::join(what, "; "), count > 1 ? "s" : "", listed(ranks),
                              where.empty() || where.size() > 4 ? "" : fmt::format(" ({})", fmt::join(where, ", "))));
  }
  auto groups = [&](Axis axis, const char* what) {
    if (m.size(axis) == 1) return;
    std::vector<std::vector<int>> all = groups_along(m, axis);
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(4, all.size()); ++i) text += (i ? " | " : "") + listed(all[i]);
    out.push_back(fmt::format("{}: {}{}", what, text, all.size() > 4 ? fmt::format(" | .. ({} groups)", all.size()) : ""));
  };
  groups(Axis::tensor, "ranks that share each layer");
  groups(Axis::data, c.parallel.zero > 0 ? "ranks that add their gradients and divide what ZeRO divides"
                                         : "ranks that add their gradients");
  groups(Axis::expert, "ranks that divide the experts");
  return out;
}

}  // namespace ravine

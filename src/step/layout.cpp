#include "step/layout.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/narrow_option.h"
#include "optim/make_update_rule.h"
#include "parallel/fit.h"

namespace ravine {
namespace {

constexpr int64_t kMostLeavesOfRank = 256;

}  // namespace

std::string RunLayout::text() const { return mesh.ranks() > 1 ? mesh.text() : "alone"; }

int64_t micro_batches_of(const Config& c) { return div_exact(c.train.global_batch, c.train.micro_batch); }

bool takes_turns(const ParallelOptions& parallel) { return parallel.zero >= 2; }

RunLayout run_layout(const Config& c, int ranks, const Model& model, std::optional<int64_t> checkpoint_leaves) {
  const int64_t micros = micro_batches_of(c);
  const Mesh mesh = mesh_of(c.parallel, ranks, model, micros);
  if (mesh.expert > 1 && make_update_rule(c.optimizer)->sees() >= Whole::tensor)
    throw UserError(
        fmt::format("parallel.expert is {}, optimizer.type {}", mesh.expert, name(c.optimizer.type)),
        "parallel.expert, optimizer.type",
        "this optimizer needs norms of whole tensors; the experts of a layer are one tensor, of which each rank has a part",
        "set parallel.expert=1, or another optimizer.type");
  RunLayout out;
  out.mesh = mesh;
  out.micro_batches = micros / mesh.data;
  out.round_robin = takes_turns(c.parallel);
  auto leaves_fit = [&](int64_t v) { return v % mesh.data == 0 && micros % v == 0; };
  out.sum_leaves = c.parallel.sum_leaves > 0 ? c.parallel.sum_leaves : mesh.data;
  if (c.parallel.sum_leaves == 0 && checkpoint_leaves && *checkpoint_leaves > 0 && leaves_fit(*checkpoint_leaves))
    out.sum_leaves = *checkpoint_leaves;
  if (!leaves_fit(out.sum_leaves)) {
    std::vector<int64_t> good;
    for (int64_t v = mesh.data; v <= micros; v += mesh.data)
      if (leaves_fit(v)) good.push_back(v);
    throw UserError(fmt::format("parallel.sum_leaves is {}", out.sum_leaves), "parallel.sum_leaves",
                    fmt::format("it must be a multiple of the {} data rank{} and divide the {} micro batches of a step",
                                mesh.data, mesh.data > 1 ? "s" : "", micros),
                    fmt::format("use one of {}", fmt::join(good, ", ")));
  }
  out.leaves = out.sum_leaves / mesh.data;
  if (out.leaves > kMostLeavesOfRank)
    throw UserError(fmt::format("parallel.sum_leaves is {}, {} for each of {} data rank{}", out.sum_leaves, out.leaves,
                                mesh.data, mesh.data > 1 ? "s" : ""),
                    "parallel.sum_leaves", fmt::format("a rank sums at most {} leaves in a step", kMostLeavesOfRank),
                    "use fewer leaves or more data ranks");
  return out;
}

void check_same(const Group& all, const std::string& what, const std::string& mine) {
  if (all.size() == 1) return;
  std::vector<std::string> texts = gather_texts(all, mine);
  for (size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    std::istringstream a(texts[0]), b(texts[r]);
    std::string left, right;
    do {
      left.clear(), right.clear();
      std::getline(a, left);
      std::getline(b, right);
    } while (left == right && (a || b));
    throw UserError(fmt::format("ranks differ in their {}", what), fmt::format("rank {}", r),
                    fmt::format("it has '{}', rank 0 has '{}'", right, left),
                    "start every rank with the same program, config and data");
  }
}

}  // namespace ravine

#include "engine/ops/expert_ranks.h"

#include <algorithm>
#include <numeric>

namespace ravine {

ExpertRanks::ExpertRanks(Ctx& c, const Routes& routes, const Routing& routing)
    : alone_(c.group(Axis::expert).size() == 1), here_(routes) {
  if (alone_) return;
  const Group& group = c.group(Axis::expert);
  const int64_t ranks = group.size(), each = div_exact(routing.experts, ranks), rows = routes.weights.rows();
  const Tensor mine = c.empty({routing.experts}, DType::i32), theirs = c.empty({ranks, each}, DType::i32);
  here_ = {.slots = {}, .tokens = {}, .offsets = c.empty({ranks, each + 1}, DType::i32), .weights = {}};
  // Host work: counts the rows of each expert from the offsets, and afterwards makes offsets from counts.
  const auto* begins = routes.offsets.view().as<int32_t>();
  auto* counts = mine.view().as<int32_t>();
  if (counts) std::transform(begins + 1, begins + routing.experts + 1, begins, counts, std::minus<>());
  group.all_to_all(counts, theirs.view().data, each * size_of(DType::i32)).wait();
  const int64_t capacity = routing.drop == Drop::none ? rows : each * expert_capacity(routing, c.batch().tokens);
  here_.most_of_source = std::min(rows, capacity);
  moves_.rows = rows;
  if (!counts) {  // even load in messages, the largest case in memory
    const int64_t even = rows / ranks;
    moves_.sent.assign(static_cast<size_t>(ranks), even), moves_.received = moves_.sent;
    here_.sources.assign(static_cast<size_t>(ranks), here_.most_of_source);
  } else {
    const auto* theirs_of = theirs.view().as<int32_t>();
    for (int64_t r = 0; r < ranks; ++r) {
      moves_.sent.push_back(begins[(r + 1) * each] - begins[r * each]);
      auto* to = here_.offsets.view().row<int32_t>(r);
      to[0] = 0;
      std::partial_sum(theirs_of + r * each, theirs_of + (r + 1) * each, to + 1);
      moves_.received.push_back(to[each]);
      require(to[each] <= here_.most_of_source, "expert ranks: {} rows from rank {}, planned for {}", to[each], r,
              here_.most_of_source);
    }
    here_.sources = moves_.received;
  }
  moves_.rows_here = std::accumulate(here_.sources.begin(), here_.sources.end(), int64_t{0});
  here_.weights = recorded(c, routes.weights, moves_, true);
}

Tensor ExpertRanks::to_owners(Ctx& c, Tensor rows) const { return alone_ ? rows : recorded(c, std::move(rows), moves_, true); }

Tensor ExpertRanks::from_owners(Ctx& c, Tensor rows) const {
  return alone_ ? rows : recorded(c, std::move(rows), moves_, false);
}

Tensor ExpertRanks::move(Ctx& c, const Tensor& x, const Moves& m, bool there) {
  require(x.view().contiguous() && x.rows() == (there ? m.rows : m.rows_here), "expert ranks: {} rows of {}", x.rows(),
          there ? m.rows : m.rows_here);
  Tensor out = c.empty({there ? m.rows_here : m.rows, x.cols()}, x.dtype());
  std::vector<int64_t> to = there ? m.sent : m.received, from = there ? m.received : m.sent;
  const int64_t came = std::accumulate(from.begin(), from.end(), int64_t{0}), row = x.cols() * size_of(x.dtype());
  for (std::vector<int64_t>* rows : {&to, &from})
    for (int64_t& n : *rows) n *= row;
  c.group(Axis::expert).all_to_all(x.view().data, to, out.view().data, from).wait();
  c.call(Fill{out.view().row_range(came, out.rows() - came), 0});
  return out;
}

Tensor ExpertRanks::recorded(Ctx& c, Tensor rows, const Moves& moves, bool there) {
  Tensor out = move(c, rows, moves, there);
  c.record(there ? "to_owners" : "from_owners", {out.ref()}, [moves, there, xr = rows.ref(), outr = out.ref()](Ctx& c) {
    require(!c.grads().has(xr), "expert ranks: what is sent must be used by it only");
    c.grads().put(xr, move(c, c.grads().get(outr), moves, !there));
  });
  return out;
}

}  // namespace ravine

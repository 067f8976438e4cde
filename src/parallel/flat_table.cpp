#include "parallel/flat_table.h"

#include <algorithm>

namespace ravine {
namespace {

const Ranks& alone() {
  static const Ranks one;
  return one;
}

}  // namespace

FlatTable::FlatTable(ParamSet& set, const Types& types, const FlatLayout& layout)
    : params(set),
      types(types),
      ranks(layout.ranks ? layout.ranks : &alone()),
      zero(layout.zero),
      sequence(layout.sequence),
      sharding{.mesh = ranks->mesh(),
               .at = ranks->at(),
               .divided = layout.zero > 0,
               .whole_below = layout.whole_below,
               .stays_up_to = layout.disk_values ? 0 : layout.stays_up_to,
               .first_rank_saves = layout.first_rank_saves},
      disk_values(layout.disk_values),
      disk_masters(layout.disk_masters),
      read_by(set.units().size()),
      stages_(layout.stages),
      locations_(set.params().size()) {
  std::vector<Unit*> local;
  for (Unit& u : set.units())
    if (is_local(u)) local.push_back(&u);
  buckets = flat_buckets(set, local, sharding, types);
  borrowed = buckets.size();
  for (Unit* u : local)
    for (const Param* p : u->params) {
      if (!p->tied || is_local(*p->tied->unit)) continue;
      for (Bucket& b : flat_buckets(set, {p->tied->unit}, sharding, types))
        if (b.holds(*p->tied)) {
          b.unit = u;
          b.primary = {};
          buckets.push_back(std::move(b));
        }
    }
  for (size_t b = 0; b < buckets.size(); ++b) {
    read_by[buckets[b].unit->index].push_back(b);
    if (std::find(groups.begin(), groups.end(), buckets[b].group) == groups.end()) groups.push_back(buckets[b].group);
    for (const Bucket::Span& s : buckets[b].spans) locations_[s.param->index] = {b, s.begin, s.shape, true};
  }
  for (const Param& p : set.params()) {
    if (!p.tied || !is_local(*p.unit)) continue;
    std::vector<size_t>& reads = read_by[p.unit->index];
    const size_t b = locations_[p.tied->index].bucket;
    if (std::find(reads.begin(), reads.end(), b) == reads.end()) reads.push_back(b);
  }
}

const FlatTable::Location& FlatTable::at(const Param& p) const {
  const Location& at = locations_[(p.tied ? p.tied : &p)->index];
  require(at.here, "store: '{}' lives on another pipeline stage", p.name);
  return at;
}

}  // namespace ravine

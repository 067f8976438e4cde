#include "step/local_norms.h"

#include <bit>

#include "base/json.h"
#include "base/text.h"

namespace ravine {
namespace {

// Calls f(parameter, sum of squares, elements) for each trainable parameter with a gradient on this rank.
template <class F>
void each_local(StepEngine& engine, F&& f) {
  if (!engine.has_unreduced()) return;
  for (const Bucket& b : engine.store().buckets())
    for (const Bucket::Span& s : b.spans)
      if (s.param->policy.trainable) f(*s.param, engine.unreduced_squares(*s.param), s.shape.count());
}

}  // namespace

std::vector<LocalNorm> gather_local_norms(StepEngine& engine, const std::string& pattern) {
  Json mine = Json::array();  // bits of doubles, since JSON has no infinity
  each_local(engine, [&](const Param& p, double squares, int64_t count) {
    if (glob_match(pattern, p.name)) mine.push_back({p.index, std::bit_cast<uint64_t>(squares), count});
  });
  const std::deque<Param>& params = engine.model().params().params();
  std::vector<LocalNorm> all(params.size());
  const std::vector<std::string> texts = gather_texts(engine.ranks().all(), mine.dump());
  for (size_t r = 0; r < texts.size(); ++r)
    for (const Json& row : Json::parse(texts[r])) {
      LocalNorm& n = all[row[0].get<size_t>()];
      n.parameter = params[row[0].get<size_t>()].name;
      n.ranks.push_back(static_cast<int>(r));
      n.squares.push_back(std::bit_cast<double>(row[1].get<uint64_t>()));
      n.counts.push_back(row[2].get<int64_t>());
    }
  std::erase_if(all, [](const LocalNorm& n) { return n.ranks.empty(); });
  return all;
}

double embedding_squares(StepEngine& engine) {
  double found = 0;
  const Param* table = nullptr;  // the first table of the model: tables of positions follow it
  for (const Param& p : engine.model().params().params())
    if (!table && p.use == Use::table) table = &p;
  each_local(engine, [&](const Param& p, double squares, int64_t) {
    if (&p == table) found = squares;
  });
  return found;
}

}  // namespace ravine

#include "probe/whole_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "comm/mesh.h"

namespace ravine {
namespace {

Mesh mesh_of(const RankDump& rank) {
  auto size = [&](const char* axis) {
    return rank.session.contains(axis) && rank.session[axis].is_number_integer() ? std::max(1, rank.session[axis].get<int>())
                                                                                 : 1;
  };
  return {.pipeline = size("pipeline"), .data = size("data"), .tensor = size("tensor")};
}

struct Piece {
  const DumpRecord* record;
  std::pair<int, int64_t> row;  // common to tensor ranks: the first of them, and the micro batch
};

// The records of one tensor, over all ranks and micro batches.
struct Pieces {
  std::vector<Piece> all;
  double layer = 0;     // position among the layers, which orders pipeline ranks
  int64_t written = 0;  // position in the log of its rank
};

struct Order {
  int64_t step;
  int phase;
  double layer;
  int64_t written;
  auto operator<=>(const Order&) const = default;
};

// Returns 7 for model.layers.7.mlp. The embedding is before the first layer, all others are after the last.
double layer_of(std::string_view path) {
  if (path.find("embed") != std::string_view::npos) return -1;
  const size_t at = path.find("layers.");
  if (at == std::string_view::npos) return std::numeric_limits<double>::max();
  double layer = 0;
  for (size_t i = at + 7; i < path.size() && path[i] >= '0' && path[i] <= '9'; ++i) layer = layer * 10 + (path[i] - '0');
  return layer;
}

// Returns the record for the whole tensor: without micro batch and begin.
DumpRecord whole_of(const DumpRecord& r) {
  DumpRecord w = r;
  w.micro = 1;
  w.at.clear(), w.global.clear();
  return w;
}

class Side {
 public:
  explicit Side(const Dump& dump) {
    for (const RankDump& rank : dump.ranks) {
      const Mesh mesh = mesh_of(rank);
      Coordinates at = coordinates_of(mesh, rank.rank);
      at.tensor = 0;
      const int first = rank_of(mesh, at);
      int64_t written = 0;
      for (const DumpRecord& r : rank.records) {
        ++written;
        // Sums of gradients over leaves and ranks: their number depends on the layout. The results are compared as
        // `gradient`.
        if (r.path.empty() && r.phase == Phase::backward) continue;
        const std::string key = whole_of(r).key();
        auto [it, fresh] = pieces.try_emplace(key);
        if (fresh) {
          const double layer = r.phase == Phase::update ? 0 : layer_of(r.path);
          it->second.layer = r.phase == Phase::forward || r.phase == Phase::update ? layer : -layer;
          it->second.written = written;
          keys.push_back(key);
        }
        it->second.all.push_back({&r, {first, r.micro}});
      }
    }
    auto order = [&](const std::string& key) {
      const Pieces& p = pieces.at(key);
      const DumpRecord& r = *p.all.front().record;
      return Order{r.step, r.phase == Phase::forward ? 0 : r.phase == Phase::update ? 2 : 1, p.layer, p.written};
    };
    std::stable_sort(keys.begin(), keys.end(), [&](const std::string& x, const std::string& y) { return order(x) < order(y); });
  }
  std::unordered_map<std::string, Pieces> pieces;
  std::vector<std::string> keys;  // in the order of layers
};

using Chosen = std::vector<const DumpRecord*>;

// Returns three choices of pieces, the likeliest first: without the copies of tensor ranks, without all copies, all.
std::array<Chosen, 3> choices_of(const Pieces& p) {
  std::array<Chosen, 3> out;
  std::set<std::tuple<std::pair<int, int64_t>, uint64_t, uint64_t, std::vector<int64_t>>> of_row;
  std::set<std::tuple<uint64_t, uint64_t, std::vector<int64_t>>> of_all;
  for (const auto& [r, row] : p.all) {
    const auto& [free, positional] = std::pair{r->figures.order_free, r->figures.positional};
    if (of_row.insert({row, free, positional, r->at}).second) out[0].push_back(r);
    if (of_all.insert({free, positional, r->at}).second) out[1].push_back(r);
    out[2].push_back(r);
  }
  return out;
}

int64_t count_of(const Chosen& chosen) {
  int64_t count = 0;
  for (const DumpRecord* r : chosen) count += r->figures.count;
  return count;
}

TensorFigures sum_of(const Chosen& chosen) {
  TensorFigures out;
  out.has_statistics = true;
  double sum = 0, squares = 0;
  bool first = true;
  for (const DumpRecord* r : chosen) {
    const TensorFigures& f = r->figures;
    out.has_statistics &= f.has_statistics, out.rough |= f.rough;
    out.no_mean |= f.no_mean, out.no_l2 |= f.no_l2;
    out.count += f.count, out.order_free += f.order_free;
    out.finite += f.finite, out.nan += f.nan, out.plus_inf += f.plus_inf, out.minus_inf += f.minus_inf, out.zero += f.zero;
    sum += f.mean * static_cast<double>(f.finite), squares += f.l2 * f.l2, out.l1 += f.l1;
    if (f.finite > 0) {
      out.min = first ? f.min : std::min(out.min, f.min), out.max = first ? f.max : std::max(out.max, f.max);
      out.abs_max = std::max(out.abs_max, f.abs_max);
      first = false;
    }
  }
  out.positional = out.order_free;
  out.l2 = std::sqrt(squares);
  if (out.finite > 0) {
    const auto n = static_cast<double>(out.finite);
    out.mean = sum / n, out.std = std::sqrt(std::max(0.0, squares / n - out.mean * out.mean));
  }
  return out;
}

DumpRecord put_together(const Chosen& chosen, bool one_each) {
  DumpRecord w = whole_of(*chosen.front());
  if (chosen.size() > 1) {
    w.figures = sum_of(chosen);
    w.values.clear();
    const int64_t columns = w.shape.rank() ? w.shape[-1] : 1;
    if (columns > 0) w.shape = Shape{w.figures.count / columns, columns};
  }
  w.figures.positional = w.figures.order_free;
  if (!one_each) w.file.clear(), w.stored.clear();
  return w;
}

}  // namespace

const RankDump* rank_in(const Dump& dump, int rank) {
  const auto it = std::find_if(dump.ranks.begin(), dump.ranks.end(), [&](const RankDump& r) { return r.rank == rank; });
  return it == dump.ranks.end() ? nullptr : &*it;
}

bool same_layout(const Dump& a, const Dump& b) {
  auto layout = [](const RankDump& rank) {
    int64_t micro = 0;
    for (const DumpRecord& r : rank.records) micro = std::max(micro, r.micro);
    return std::tuple(mesh_of(rank), rank.session.contains("zero") ? rank.session["zero"] : Json(0), micro);
  };
  return std::all_of(a.ranks.begin(), a.ranks.end(), [&](const RankDump& rank) {
    const RankDump* other = rank_in(b, rank.rank);
    return other ? layout(rank) == layout(*other) : b.ranks.empty() || mesh_of(rank) == mesh_of(b.ranks.front());
  });
}

WholeRuns whole_runs(const Dump& a, const Dump& b) {
  for (const Dump* dump : {&a, &b})
    if (const int all = dump->ranks.empty() ? 0 : mesh_of(dump->ranks.front()).ranks();
        static_cast<int>(dump->ranks.size()) < all)
      throw UserError(fmt::format("it has {} of the {} ranks of its run", dump->ranks.size(), all), dump->folder,
                      "the other dump has another layout, so tensors are joined over all ranks",
                      "dump all ranks (probe.dump without ranks)");
  const Side side_a(a), side_b(b);
  WholeRuns out;
  // The joined records of each tensor in both dumps, and the calls whose tensor is a sum.
  std::unordered_map<std::string, std::pair<DumpRecord, DumpRecord>> both;
  std::set<std::string> sums, left_out;
  for (const std::string& key : side_a.keys) {
    const auto other = side_b.pieces.find(key);
    if (other == side_b.pieces.end()) continue;
    const Pieces& pieces = side_a.pieces.at(key);
    const auto of_a = choices_of(pieces), of_b = choices_of(other->second);
    const Chosen *x = nullptr, *y = nullptr;
    for (size_t i = 0; i < 9 && !x; ++i)
      if (count_of(of_a[i / 3]) == count_of(of_b[i % 3])) x = &of_a[i / 3], y = &of_b[i % 3];
    const DumpRecord& r = *pieces.all.front().record;
    if (!x) {
      const bool gradient = r.output && !r.parameters.empty();  // the whole sum is compared as `gradient`
      r.phase == Phase::update || gradient ? left_out.insert(key) : sums.insert(whole_of(r).call());
      continue;
    }
    const bool one_each = x->size() == 1 && y->size() == 1;
    auto& [p, q] = both[key] = {put_together(*x, one_each), put_together(*y, one_each)};
    (x->size() == 1 ? q : p).shape = (x->size() == 1 ? p : q).shape;  // same number of elements, without order
  }
  int64_t number = -1;
  for (const auto& [side, whole] : {std::pair{&side_a, &out.a}, {&side_b, &out.b}}) {
    for (const std::string& key : side->keys) {
      if (left_out.contains(key)) continue;
      const auto known = both.find(key);
      const Pieces& pieces = side->pieces.at(key);
      DumpRecord r = known != both.end() ? (whole == &out.a ? known->second.first : known->second.second)
                                         : put_together(choices_of(pieces)[0], false);
      if (sums.contains(r.call())) r.n = number;  // makes it a call of this side alone
      whole->records.push_back(std::move(r));
    }
    --number;
  }
  for (const auto& [dump, whole] : {std::pair{&a, &out.a}, {&b, &out.b}})
    if (!dump->ranks.empty()) whole->session = dump->ranks.front().session, whole->steps = dump->ranks.front().steps;
  return out;
}

}  // namespace ravine

// Two dumps, or two traces, held against each other by meaning: which call made the first difference that its inputs do not
// explain.
//
// Tensors are paired by what they are (rank, step, micro batch, phase, path, op, number of the call, tensor, side), never by
// their order. What has no partner is reported. Of a pair the error is |b - a| / |a| in L2 norms where both dumps hold the
// tensors; where they hold statistics, the least error that these allow; of checksums only whether it is 0.
//
// Of a call the error of what it writes is held against two bounds added up. Its own roundings: u of the type written, times 2,
// and for a sum of K products of a and b  4 sqrt(K) v |a| |b| / |out|, with v that of f32 (f64 if all is), since sum |x||w| of
// every element of the product is within the norms of its row and column, and roundings of sums in any order add up like
// sqrt(K) (Higham and Mary 2019); of other ops K is the longest side and |a| |b| / |out| is |inputs| / |out|, 1 at least. And
// what it inherits: the errors of what it reads, times |a| |b| / |out| for a product, else times 8 |inputs| / |out|. The first
// call in the order of the run that is beyond both is the culprit: its inputs agree, or differ too little for what it writes.
// Parameters and ids of the first step have no call that made them, and have to be the same bits.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "probe/dump_log.h"
#include "probe/pair_errors.h"

namespace ravine {

enum class CulpritKind : uint8_t { forward, backward, update, data, loss, weights };
constexpr auto names_of(CulpritKind) {
  using enum CulpritKind;
  return std::to_array<ValueName<CulpritKind>>(
      {{forward, "forward"}, {backward, "backward"}, {update, "update"}, {data, "data"}, {loss, "loss"}, {weights, "weights"}});
}

enum class ComparedBy : uint8_t { bits, tensors, statistics, checksums, nothing };  // nothing: shapes differ
constexpr auto names_of(ComparedBy) {
  using enum ComparedBy;
  return std::to_array<ValueName<ComparedBy>>(
      {{bits, "bits"}, {tensors, "tensors"}, {statistics, "statistics"}, {checksums, "checksums"}, {nothing, "nothing"}});
}

struct ComparedPair {
  int rank = 0;
  DumpRecord a, b;
  ComparedBy by = ComparedBy::bits;
  double error = 0;                 // infinite: not comparable, or only known to differ
  double own = 0, inherited = 0;    // bounds; of what a call reads 0
  bool judged = false;              // error may not be beyond the sum of both
  std::optional<PairErrors> exact;  // where tensors were compared
  bool beyond() const { return judged && error > own + inherited; }
  double ratio() const { return own + inherited > 0 ? error / (own + inherited) : 0; }
};

struct Culprit {
  int64_t step = 0, micro = 0;
  std::string phase, path, op, tensor, hypothesis;
  CulpritKind kind = CulpritKind::forward;
  int rank = 0;
};

struct Comparison {
  std::vector<ComparedPair> pairs;     // in the order of the run
  std::vector<std::string> unmatched;  // in words, those of a whole step or phase together
  std::optional<Culprit> culprit;
  std::string inherited_from;  // no culprit, and yet beyond: the first input that differs and that no call has made
  std::string verdict;         // three sentences
  int64_t equal_bits = 0;
  bool agrees() const { return !culprit && inherited_from.empty(); }
};

// A UserError where no tensor of one is in the other.
Comparison compare_dumps(const Dump& a, const Dump& b);
// Files of `ravine trace`, or any safetensors files, whose tensors are paired by name: no call is known, so the first in the
// order of the pass that differs by more than 256 u of its type is the culprit.
Comparison compare_traces(const std::string& a, const std::string& b);

// What COMMANDS say of --json: equal, verdict, culprit, pairs, unmatched.
Json comparison_json(const Comparison& c);
std::string pairs_csv(const Comparison& c);  // a header, then a line for each pair

}  // namespace ravine

// The result of a comparison of two dumps (compare_dumps.h).
#pragma once
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "probe/dump_log.h"
#include "probe/pair_errors.h"

namespace ravine {

enum class CulpritKind : uint8_t { forward, backward, update, data, loss, weights };
constexpr auto names_of(CulpritKind) {
  using enum CulpritKind;
  return std::to_array<ValueName<CulpritKind>>(
      {{forward, "forward"}, {backward, "backward"}, {update, "update"}, {data, "data"}, {loss, "loss"}, {weights, "weights"}});
}

// The kind of data that were compared. figures: equal figures of another program's dump. nothing: shapes differ.
enum class ComparedBy : uint8_t { bits, figures, tensors, statistics, checksums, nothing };
constexpr auto names_of(ComparedBy) {
  using enum ComparedBy;
  return std::to_array<ValueName<ComparedBy>>({{bits, "bits"},
                                               {figures, "figures"},
                                               {tensors, "tensors"},
                                               {statistics, "statistics"},
                                               {checksums, "checksums"},
                                               {nothing, "nothing"}});
}

// The error of a dumped output against the result of Ravine's kernel on the same inputs (substitution.h).
struct GeneratedError {
  double error = 0, bound = 0;  // relative to Ravine's result; infinite: not comparable
  bool beyond() const { return error != 0 && !(error <= bound); }
  double ratio() const { return bound > 0 ? error / bound : beyond() ? std::numeric_limits<double>::infinity() : 0; }
};

// A pair of tensors with its error and bounds.
struct ComparedPair {
  int rank = 0;
  DumpRecord a, b;
  ComparedBy by = ComparedBy::bits;
  double error = 0;                   // infinite: not comparable, or only known to differ
  double own = 0, inherited = 0;      // bounds; 0 for inputs
  bool judged = false;                // true if the error must be within own + inherited
  std::optional<PairErrors> exact;    // set if tensors were compared
  std::optional<DumpRecord> made_by;  // for an input: the call that made it and that the other dump lacks
  bool made_in_b = false;
  bool rewired = false;     // different calls made the two inputs
  bool by_setting = false;  // a number of the call's formula differs
  std::string note;         // more on the difference
  std::optional<GeneratedError> generated_a, generated_b;
  bool generates() const { return (generated_a && generated_a->beyond()) || (generated_b && generated_b->beyond()); }
  // True if substitution decides this pair: inherited bounds are then ignored.
  bool substituted() const { return (generated_a && generated_b) || generates(); }
  bool same() const { return by == ComparedBy::bits || by == ComparedBy::figures; }
  bool nan_in_both() const { return a.figures.nan > 0 && b.figures.nan > 0; }
  // see TensorFigures::rough
  bool rough() const { return by == ComparedBy::statistics && (a.figures.rough || b.figures.rough); }
  bool beyond() const {
    return judged && (substituted() && !by_setting ? generates() : error != 0 && !(error <= own + inherited));
  }
  double ratio() const {
    if (substituted() && !by_setting)
      return std::max(generated_a ? generated_a->ratio() : 0, generated_b ? generated_b->ratio() : 0);
    return own + inherited > 0 ? error / (own + inherited) : 0;
  }
};

// A call, input or weight with a difference that nothing before it explains.
struct Culprit {
  int64_t step = 0, micro = 0;
  // for an input that no call wrote: op "input", path = its name (optimizer.lr, rope.table)
  std::string phase, path, op, tensor;
  std::string hypothesis, reader;  // reader: for an input, the first call that reads it
  CulpritKind kind = CulpritKind::forward;
  int rank = 0;
  double error = 0, bound = 0;
  std::array<int64_t, 3> place = {};  // position in the run: step, phase, number of the pair
  bool by_setting = false;            // a number of the call's formula differs, as the hypothesis says
  std::string generates;              // by substitution: "A", "B", "A and B"; empty: unknown
  int64_t alike = 0;                  // number of further calls of this op with the same fault
};

// The result of a comparison.
struct Comparison {
  std::vector<ComparedPair> pairs;     // in the order of the run
  std::vector<std::string> unmatched;  // as text; a whole step or phase is one entry
  // The ranks, steps and phases without any partner: no later pair covers them, so the result is unknown.
  std::vector<std::string> uncovered;
  std::vector<Culprit> culprits;      // in the order of the run; one for all calls of an op with the same fault
  std::string inherited_from;         // without culprits: the first differing input that no call has made
  int64_t by_spread = 0;              // number of pairs with a bound from perturbation (spread.h)
  int64_t substituted = 0;            // number of pairs that substitution has decided
  std::vector<std::string> inherits;  // as text: calls above their bounds that only inherit
  std::string verdict;                // three sentences, and one on damaged lines
  int64_t equal_bits = 0, equal_figures = 0;
  bool of_modules = false;               // one is of another program (dump_kinds.h)
  bool own_names = false;                // both are of another program, under its own names
  bool layouts_differ = false;           // ranks and micro batches were joined (whole_run.h)
  int64_t damaged_a = 0, damaged_b = 0;  // unreadable lines of the logs, which are not compared
  // Returns the first output with NaN on both sides; null: there is none.
  const ComparedPair* nan_in_both() const {
    for (const ComparedPair& p : pairs)
      if (p.a.output && p.nan_in_both()) return &p;
    return nullptr;
  }
  bool agrees() const {
    return !nan_in_both() && culprits.empty() && inherited_from.empty() && uncovered.empty() &&
           (damaged_a + damaged_b == 0 || unmatched.empty());
  }
};

}  // namespace ravine

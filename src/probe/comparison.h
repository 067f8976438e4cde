// What a comparison of two dumps comes to (compare_dumps.h).
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

// figures: they are the same, all that another program's dump has; nothing: shapes differ.
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

// What a call of a dump has written, held against what our kernel makes of its inputs (substitution.h).
struct GeneratedError {
  double error = 0, bound = 0;  // as parts of ours; infinite: not comparable
  bool beyond() const { return error != 0 && !(error <= bound); }
  double ratio() const { return bound > 0 ? error / bound : beyond() ? std::numeric_limits<double>::infinity() : 0; }
};

struct ComparedPair {
  int rank = 0;
  DumpRecord a, b;
  ComparedBy by = ComparedBy::bits;
  double error = 0;                   // infinite: not comparable, or only known to differ
  double own = 0, inherited = 0;      // bounds; of what a call reads 0
  bool judged = false;                // error may not be beyond the sum of both
  std::optional<PairErrors> exact;    // where tensors were compared
  std::optional<DumpRecord> made_by;  // of what a call reads: the call that made it and that the other dump lacks
  bool made_in_b = false;
  bool rewired = false;     // the two read what different calls have made
  bool by_setting = false;  // a number of the call's formula differs
  std::string note;         // more of the difference, in words
  std::optional<GeneratedError> generated_a, generated_b;
  bool generates() const { return (generated_a && generated_a->beyond()) || (generated_b && generated_b->beyond()); }
  // By what our kernel makes of the inputs of each: no bound on what is inherited counts then.
  bool substituted() const { return (generated_a && generated_b) || generates(); }
  bool same() const { return by == ComparedBy::bits || by == ComparedBy::figures; }
  bool nan_in_both() const { return a.figures.nan > 0 && b.figures.nan > 0; }
  bool rough() const { return by == ComparedBy::statistics && (a.figures.rough || b.figures.rough); }  // TensorFigures::rough
  bool beyond() const {
    return judged && (substituted() && !by_setting ? generates() : error != 0 && !(error <= own + inherited));
  }
  double ratio() const {
    if (substituted() && !by_setting)
      return std::max(generated_a ? generated_a->ratio() : 0, generated_b ? generated_b->ratio() : 0);
    return own + inherited > 0 ? error / (own + inherited) : 0;
  }
};

// What made a difference that nothing before it explains.
struct Culprit {
  int64_t step = 0, micro = 0;
  std::string phase, path, op, tensor;  // of an input that no call wrote: op "input", path its name (optimizer.lr, rope.table)
  std::string hypothesis, reader;       // reader: of an input, the first call that reads it
  CulpritKind kind = CulpritKind::forward;
  int rank = 0;
  double error = 0, bound = 0;
  std::array<int64_t, 3> place = {};  // in the run: step, phase, number of the pair
  bool by_setting = false;            // a number of the call's formula differs, as the hypothesis says
  std::string generates;              // by substitution: "A", "B", "A and B"; empty: not known
  int64_t alike = 0;                  // further calls of that op of which the same is true
};

struct Comparison {
  std::vector<ComparedPair> pairs;     // in the order of the run
  std::vector<std::string> unmatched;  // in words, those of a whole step or phase together
  // Of these the ranks, steps and phases of which nothing has a partner: no later pair stands for them, so nobody knows.
  std::vector<std::string> uncovered;
  std::vector<Culprit> culprits;      // in the order of the run; one for all calls of an op with the same fault
  std::string inherited_from;         // no culprit, and yet beyond: the first input that differs and that no call has made
  int64_t by_spread = 0;              // pairs that were given what perturbation shows (spread.h)
  int64_t substituted = 0;            // pairs that substitution has decided
  std::vector<std::string> inherits;  // in words: calls beyond their bounds that generate nothing
  std::string verdict;                // three sentences, and one of damaged lines
  int64_t equal_bits = 0, equal_figures = 0;
  bool of_modules = false;               // one is another program's (dump_kinds.h)
  bool own_names = false;                // both are of another program, under its own names
  bool layouts_differ = false;           // ranks and micro batches were put together (whole_run.h)
  int64_t damaged_a = 0, damaged_b = 0;  // lines of the logs that cannot be read: what they hold is not compared
  // The first output that holds NaN on both sides; null: there is none.
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

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

// The data by which a pair of tensors was compared. bits: the bits are equal, by checksum. figures: the rough figures
// of another program's dump are equal. tensors, statistics, checksums: these differ, and gave the error. nothing: the
// shapes differ.
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

// The error of an output in one of the two dumps, of Ravine or of another program, and its bound (substitution.h). The
// output is compared with the result of Ravine's kernel on the inputs in the same dump.
struct GeneratedError {
  double error = 0, bound = 0;  // relative to Ravine's result; infinite: not comparable
  bool beyond() const { return error != 0 && !(error <= bound); }
  double ratio() const { return bound > 0 ? error / bound : beyond() ? std::numeric_limits<double>::infinity() : 0; }
};

// A pair of tensors of the two dumps, with its error and bounds.
struct ComparedPair {
  int rank = 0;
  DumpRecord a, b;
  ComparedBy by = ComparedBy::bits;
  double error = 0;                   // |b - a| / |a| in L2 norms; infinite: not comparable, or only known to differ
  double own = 0, inherited = 0;      // bounds of `error`; 0 for inputs
  bool judged = false;                // true if the error must be within own + inherited
  std::optional<PairErrors> exact;    // the differences of elements; set if the values of both tensors are stored
  std::optional<DumpRecord> made_by;  // for an input: output of the call that made it, if only one dump has it
  bool made_in_b = false;             // true: the call of `made_by` is in dump B; false: in A
  bool rewired = false;               // true: an input that different calls made in the two dumps
  bool by_setting = false;            // true: a number in the call's formula differs (DumpRecord::settings)
  std::string note;                   // a text on the difference, for the report; "": none
  std::optional<GeneratedError> generated_a, generated_b;
  bool generates() const { return (generated_a && generated_a->beyond()) || (generated_b && generated_b->beyond()); }
  // True if the results of Ravine's kernels (generated_a, generated_b) decide this pair. Its inherited bound is then
  // ignored.
  bool substituted() const { return (generated_a && generated_b) || generates(); }
  bool same() const { return by == ComparedBy::bits || by == ComparedBy::figures; }
  bool nan_in_both() const { return a.figures.nan > 0 && b.figures.nan > 0; }
  // True if only rough figures of another program's dump (TensorFigures::rough) were compared.
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

// A call, input or weight whose difference between the two dumps is not explained by anything before it.
struct Culprit {
  int64_t step = 0, micro = 0;
  // The call. For an input that no call wrote, op is "input", and path is the input's name (optimizer.lr, rope.table).
  std::string phase, path, op, tensor;
  std::string hypothesis, reader;  // reader: for an input, the first call that reads it
  CulpritKind kind = CulpritKind::forward;
  int rank = 0;
  double error = 0, bound = 0;
  std::array<int64_t, 3> order = {};  // position in the run: step, phase, number of the pair
  bool by_setting = false;            // true: a number in the call's formula differs, which `hypothesis` names
  std::string generates;              // dumps that Ravine's kernel does not reproduce: "A", "B", "A and B"; "": unknown
  int64_t alike = 0;                  // number of further calls of this op with the same fault
};

// The result of a comparison of two dumps (compare_dumps.h).
struct Comparison {
  std::vector<ComparedPair> pairs;     // in the order of the run
  std::vector<std::string> unmatched;  // tensors without a partner, as text; a whole step or phase is one entry
  // The phases (of a rank and step) without any partner in the other dump, as text. No later pair covers them, so the
  // dumps then do not agree.
  std::vector<std::string> uncovered;
  std::vector<Culprit> culprits;      // in the order of the run; one for all calls of an op with the same fault
  std::string inherited_from;         // if there are no culprits: the first differing input made by no call
  int64_t by_spread = 0;              // number of pairs with a bound from perturbation (spread.h)
  int64_t substituted = 0;            // number of pairs that substitution has decided
  std::vector<std::string> inherits;  // calls above their bounds whose errors are only inherited, as text
  // the result in three sentences, and one on damaged lines if there are any
  std::string verdict;
  int64_t equal_bits = 0, equal_figures = 0;  // numbers of pairs with equal bits, and with equal rough figures
  bool of_modules = false;                    // true: at least one dump is of another program (dump_kinds.h)
  bool own_names = false;                     // true: both dumps are of another program, under its own names
  bool layouts_differ = false;                // true: ranks and micro batches were joined (whole_run.h)
  int64_t damaged_a = 0, damaged_b = 0;       // unreadable lines of the logs, which are not compared
  // Returns the first output that has NaN in both dumps; null if there is none.
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

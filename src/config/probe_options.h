// The section probe of a run's options: looking inside a run, and disturbing it.
#pragma once
#include <string>
#include <vector>

#include "config/bounds.h"
#include "config/choices.h"
#include "config/option.h"
#include "config/probe_choices.h"

namespace ravine {

struct InjectOption {
  int64_t step = 1;
  std::string path = "*", op = "*", tensor = "*";
  Phase phase = Phase::forward;
  PlantedValue value = PlantedValue::nan;
  int64_t element = 0;
  template <class V>
  void each(V&& v) {
    v("step", step, "step in which it happens", between(1, kMostSteps));
    v("path", path, "glob pattern of the dotted path of a call", filled());
    v("op", op, "glob pattern of the op's name", filled());
    v("phase", phase, "when the call is made");
    v("tensor", tensor, "glob pattern of the name of a tensor that the call writes", filled());
    v("value", value, "what is put there; bad_alloc: nothing, the call ends as if memory had run out");
    v("element", element, "which element, counted through rows and columns", between(0, 1e15));
  }
};

// What one dump keeps of a run (probe/capture.h).
struct DumpOption {
  std::string dir, steps;
  std::vector<int64_t> ranks;
  std::vector<std::string> paths{"*"}, phases{"forward", "backward", "update"};
  DumpWhat what = DumpWhat::statistics;
  DumpSides io = DumpSides::both;
  DumpOn on = DumpOn::always;
  int64_t limit_mb = 4096;
  template <class V>
  void each(V&& v) {
    v("dir", dir, "folder for the dump, of its own: an older dump there is gone on with, anything else is refused",
      filled() & writes() & metavar("DIR"));
    v("steps", steps,
      "which steps: numbers and ranges between bars, as in 0|5-8|100-120; 0 is the parameters before the first step; empty: all",
      metavar("RANGES"));
    v("ranks", ranks, "which ranks of the job; empty: all", between(0, kMostRanks));
    v("paths", paths, "glob patterns of dotted paths of calls, and of names of parameters", filled());
    v("phases", phases, "which phases; a forward pass that is run again counts as backward",
      one_of({"forward", "backward", "update"}) & filled());
    v("what", what, "of each tensor two checksums; those and statistics; those and the tensor itself");
    v("io", io, "what calls read, what they write, or both");
    v("on", on,
      "which of these steps are kept: all; those whose loss or gradient norm is not finite; those in which a call wrote a NaN");
    v("limit_mb", limit_mb, "the dump of a rank ends at this size, which is said; 0: no limit", between(0, 1e9));
  }
};

struct ProbeOptions {
  std::vector<InjectOption> inject;
  std::vector<DumpOption> dump;
  template <class V>
  void each(V&& v) {
    v("inject", inject,
      "faults to try out: {step: 3, path: 'model.layers.1.*', op: attention, value: nan} spoils one number that the first call "
      "of the step that fits has written",
      may_change());
    v("dump", dump,
      "what is kept of the calls of a run, one or several: {dir: dumps/a, steps: '1|5-8', paths: ['model.layers.1.*'], what: tensors}",
      may_change());
  }
};

}  // namespace ravine

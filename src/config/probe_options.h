// Section probe: dumps of a run's calls, and injected faults.
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
    v("step", step, "step of the fault", between(1, kMostSteps));
    v("path", path, "glob pattern of the dotted path of a call", filled());
    v("op", op, "glob pattern of the op's name", filled());
    v("phase", phase, "phase of the call");
    v("tensor", tensor, "glob pattern of the name of a tensor that the call writes", filled());
    v("value", value, "value to write; bad_alloc: the call fails as if memory had run out");
    v("element", element, "number of the element, counted row by row", between(0, 1e15));
  }
};

// One dump of a run (probe/capture.h).
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
    v("dir", dir, "folder of the dump; an older dump in it is continued, other content is refused",
      filled() & writes() & metavar("DIR"));
    v("steps", steps, "steps to dump, like 0|5-8|100-120; empty: all",
      metavar("RANGES") & detail("Step 0 holds the parameters before the first step."));
    v("ranks", ranks, "ranks of the job to dump; empty: all", between(0, kMostRanks));
    v("paths", paths, "glob patterns of dotted paths of calls, and of names of parameters", filled());
    v("phases", phases, "phases to dump; a recomputed forward pass belongs to backward",
      one_of({"forward", "backward", "update"}) & filled());
    v("what", what, "content per tensor: checksums, statistics too, or the tensor itself too");
    v("io", io, "tensors to keep: inputs of calls, outputs, or both");
    v("on", on, "steps to keep of probe.dump.steps: always, overflow, or nan",
      detail("overflow: steps whose loss or gradient norm is not finite. nan: steps in which a call wrote a NaN."));
    v("limit_mb", limit_mb, "size limit of the dump of a rank, in MB; 0: no limit", between(0, 1e9));
  }
};

struct ProbeOptions {
  std::vector<InjectOption> inject;
  std::vector<DumpOption> dump;
  template <class V>
  void each(V&& v) {
    v("inject", inject, "faults to inject, like {step: 3, path: 'model.layers.1.*', op: attention, value: nan}",
      may_change() & detail("One number is replaced that the first matching call of the step has written."));
    v("dump", dump, "dumps to write, like {dir: dumps/a, steps: '1|5-8', paths: ['model.layers.1.*'], what: tensors}",
      may_change());
  }
};

}  // namespace ravine

// The part of a training step in which two runs begin to differ: forward pass, backward pass, or optimizer. The
// records of the first two steps of both tell the part (the precision guide, phase 2).
//
//   loss of step 1 differs                     forward
//   equal, and norms of gradients differ       backward: the modules whose local norms differ most
//   both equal, and weights after step 1 or
//   the loss of step 2 differ                  optimizer
//
// Equal means within a tolerance. Losses: the smallest of 0.005, 0.5 % and 8 u, and what the print has rounded away; u
// is half a unit in the last place of the coarser compute type. Local norms: eight times the median difference of all
// parameters, but at least 1e-5 (f32) or u (16 bits), and at most 1e-4 or 5 %.
//
// A local norm is a sum of squares in Megatron's print and in MindFormers, and its root in others. The sum over all
// parameters tells which: it is the global norm, or its square. Without a global norm the other side tells.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "probe/curve_file.h"

namespace ravine {

// The local norms of one step, as a side has them.
struct LocalNorms {
  std::vector<std::string> names;  // empty: a list without names, as Megatron's print
  std::vector<double> values;
  std::vector<int64_t> sizes;  // number of elements, if known
  int ranks = 1;               // above 1: of each rank before the sum, so the global norm does not follow from them
  bool squares = false;        // values are sums of squares; false: roots
  std::string told_by;         // how `squares` is known; "" : not yet
};

// The records of the first steps of one side.
struct FirstSteps {
  std::string name, kind;
  TrainingCurve curve;
  std::optional<LocalNorms> norms;        // of step 1
  std::map<std::string, double> weights;  // L2 norm of each parameter after step 1, if recorded
  std::string checkpoint;                 // checkpoint of step 1 of a run of Ravine; "": none
};

// Reads the first steps of a folder of a run, of probe.dump or of msprobe, or of a log. The log may come from
// Megatron, with the print of the precision guide, or from MindFormers (local_norm: True).
FirstSteps read_first_steps(const std::string& path);

// The result of judge_first_steps().
struct PhaseVerdict {
  std::optional<std::string> phase;  // forward, backward, optimizer or none; empty: it cannot be told
  struct Weight {
    std::string name, module;
    double a = 0, b = 0, relative = 0;  // roots of both sides
  };
  std::vector<Weight> weights;      // parameters whose norms, or whose values after step 1, differ; the worst first
  std::vector<std::string> facts;   // one sentence for each thing that was compared
  std::vector<std::string> record;  // what to record to tell more
  std::string finding;
  bool agrees() const { return phase && *phase == "none"; }
  std::string text() const;
  Json json() const;
};

// compute: compute type of both, "f32" or "bf16"; "": as the curves say, else bf16.
PhaseVerdict judge_first_steps(FirstSteps a, FirstSteps b, const std::string& compute);

}  // namespace ravine

#include "apps/check.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/text.h"
#include "checks/first_steps.h"
#include "runs/run_paths.h"

namespace ravine {
namespace {

struct StepFlags {
  std::vector<std::string> sides;
  std::string compute;
  bool json = false;
  template <class V>
  void each(V&& v) {
    v("sides", sides, "run or log A to test, and run or log B to compare it with",
      positional() & required() & reads() & metavar("A B") &
          detail("Read are folders of runs and dumps, and logs of Megatron and MindFormers with their local norms."));
    v("compute", compute, "number format of the arithmetic, for logs that do not state it; empty: bf16",
      one_of({"", "f32", "bf16", "f16", "f64"}));
    v("json", json, "print one JSON object");
  }
};

int run_step(StepFlags& flags, Config&) {
  if (flags.sides.size() != 2)
    throw UserError(fmt::format("{} given", counted(flags.sides.size(), "side")), "command line", "two sides are compared",
                    "name A and B");
  FirstSteps a = read_first_steps(resolve_run(flags.sides[0])), b = read_first_steps(resolve_run(flags.sides[1]));
  if (a.name == b.name) a.name = flags.sides[0], b.name = flags.sides[1];
  const PhaseVerdict v = judge_first_steps(std::move(a), std::move(b), flags.compute);
  if (flags.json)
    fmt::print("{}\n", v.json().dump(-1, ' ', true, Json::error_handler_t::replace));
  else
    fmt::print("{}", escaped(v.text(), "\n"));
  return v.agrees() ? 0 : 1;
}

}  // namespace

Command check_step_command() {
  return command<StepFlags>(
      {.name = "check step",
       .summary = "say if two runs begin to differ in the forward pass, the backward pass or the optimizer",
       .example = "ravine check step runs/here megatron.log",
       .about = "Tells it from losses, local norms and weights of the first two steps. The exit status is 1 if they differ.",
       .sections = {},
       .alone = true},
      "", run_step);
}

}  // namespace ravine

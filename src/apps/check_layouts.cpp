#include "apps/check.h"
#include "apps/rank_job.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "probe/layouts.h"
#include "runs/open.h"
#include "step/arithmetic.h"

namespace ravine {
namespace {

struct LayoutsFlags {
  ModelFlag model;
  CommonFlags common;
  int64_t steps = 3;
  std::optional<LayoutFault> inject;
  bool json = false;
  template <class V>
  void each(V&& v) {
    model.each(v);
    v("steps", steps, "steps of each run", between(1, 1e6));
    v("inject", inject, "add a case with a fault that must be found: a changed order of a sum, cut or mask", no_value(""));
    v("json", json, "print one JSON object");
    common.each(v);
  }
};

int run_layouts(LayoutsFlags& flags, Config& config) {
  refuse_without_model(config);
  RankJob job(config.parallel, config.train.threads);
  bool kept = true;
  int status = job.run([&](World* world) {
    const int ranks = world ? world->size() : 1;
    const std::string more = "start it on several, at best 4 or 8: mpirun -n 2 ravine check layouts ..";
    if (ranks == 1 && !flags.inject)
      throw UserError("nothing to compare", "check layouts",
                      "layouts of several ranks are compared with one rank, and this job has one rank", more);
    bool speaks = ranks == 1 || world->rank() == 0;
    auto word = [](bool equal) { return equal ? "equal" : "differ"; };
    if (!flags.json && speaks)
      fmt::print("{} of 8 micro batches in 8 leaves, {} at hand, against one rank:\n{:<34} {:>7} {:>7} {:>8}  {}\n",
                 counted(flags.steps, "step"), counted(ranks, "rank"), "layout", "losses", "norms", "weights", "promised");
    std::vector<LayoutResult> results =
        check_layouts(config, flags.common.backend, world, {flags.steps, flags.inject}, [&](const LayoutResult& r) {
          if (flags.json) return;
          std::string promise =
              r.bitwise ? "same bits" : fmt::format("within {:.1e} of reordered sums, is {:.1e}", r.bound, r.difference);
          fmt::print("{:<34} {:>7} {:>7} {:>8}  {}{}\n", r.name, word(r.losses), word(r.norms), word(r.weights), promise,
                     r.kept() ? "" : fmt::format(": NOT KEPT, first: {}", r.first));
          std::fflush(stdout);
        });
    Json list = Json::array();
    for (const LayoutResult& r : results) {
      kept = kept && r.kept();
      list.push_back({{"layout", r.name},
                      {"kept", r.kept()},
                      {"bitwise", r.bitwise},
                      {"losses", r.losses},
                      {"grad_norms", r.norms},
                      {"weights", r.weights},
                      {"difference", r.difference},
                      {"bound", r.bound},
                      {"first_difference", r.first}});
    }
    if (!speaks) return;
    if (results.empty())
      throw UserError("nothing was compared", "check layouts",
                      fmt::format("this model fits no layout of up to {} ranks", ranks),
                      "use other numbers of ranks, or a model of more layers and heads");
    if (flags.json)
      fmt::print("{}\n", Json{{"kept", kept}, {"layouts", list}}.dump(-1, ' ', true, Json::error_handler_t::replace));
    else
      fmt::print("{}\n", kept ? "all as promised" : "NOT all as promised");
  });
  return status != 0 ? status : kept ? 0 : 1;
}

}  // namespace

Command check_layouts_command() {
  return command<LayoutsFlags>(
      {.name = "check layouts",
       .summary = "repeat a short training on many layouts of ranks; compare all bits",
       .example = "mpirun -n 4 ravine check layouts --config run.yaml",
       .sections = {"model", "lora", "moe", "data", "train", "dpo", "optimizer", "schedule", "precision", "parallel"}},
      "", run_layouts);
}

}  // namespace ravine

#include <stdlib.h>

#include <cerrno>
#include <filesystem>

#include "apps/check.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "files/fd.h"
#include "probe/determinism.h"
#include "runs/open.h"
#include "step/arithmetic.h"

namespace ravine {
namespace {

struct DeterminismFlags {
  ModelFlag model;
  CommonFlags common;
  int64_t steps = 4;
  std::string inject;
  bool json = false;
  template <class V>
  void each(V&& v) {
    model.each(v);
    v("steps", steps, "steps of each run", between(1, 1e6));
    v("inject", inject, "add a case with a fault that must be found: the product at this path sums in another order",
      metavar("PATH"));
    v("json", json, "print one JSON object");
    common.each(v);
  }
};

std::string first_difference(const DeterminismCase& c) {
  std::string where = c.op.step > 0 ? fmt::format("{} at {} ({}), tensor '{}', micro batch {}", c.op.op,
                                                  c.op.path.empty() ? "-" : c.op.path, c.op.phase, c.op.tensor, c.op.micro)
                                    : "no kernel call that both runs make" + (c.tensor.empty() ? "" : "; " + c.tensor);
  return fmt::format("step {}: {}", c.step, where);
}

int run_determinism(DeterminismFlags& flags, Config& config) {
  refuse_without_model(config);
  namespace fs = std::filesystem;
  // A folder for this process, removed at the end.
  struct Folder {
    std::string path = (fs::temp_directory_path() / "ravine-check-XXXXXX").string();
    Folder() {
      if (!::mkdtemp(path.data())) throw_system("create folder", path, errno);
    }
    ~Folder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } folder;
  auto word = [](bool equal) { return equal ? "equal" : "DIFFER"; };
  if (!flags.json)
    fmt::print("{} of {}, {}, recompute {}, {}, against:\n{:<22} {:>7} {:>7} {:>8} {:>9}  {}\n", counted(flags.steps, "step"),
               counted(config.train.global_batch, "sequence"),
               name(choose_arithmetic(config.precision, flags.common.backend, cpu_arithmetic(cpu_id())).compute),
               name(config.train.recompute), counted(thread_count(), "thread"), "case", "losses", "norms", "weights", "outputs",
               "first difference");
  DeterminismOptions options{flags.steps, flags.inject, folder.path};
  std::vector<DeterminismCase> cases = check_determinism(config, flags.common.backend, options, [&](const DeterminismCase& c) {
    if (flags.json) return;
    fmt::print("{:<22} {:>7} {:>7} {:>8} {:>9}  {}\n", c.name, word(c.losses), word(c.norms), word(c.state), c.compared,
               c.equal() ? "" : first_difference(c));
    std::fflush(stdout);
  });
  bool equal = true;
  Json list = Json::array();
  for (const DeterminismCase& c : cases) {
    equal = equal && c.equal();
    Json j{{"case", c.name},        {"equal", c.equal()}, {"losses", c.losses},
           {"grad_norms", c.norms}, {"weights", c.state}, {"compared", c.compared}};
    if (!c.equal()) j["step"] = c.step, j["first_difference"] = first_difference(c);
    if (c.op.step > 0) j["op"] = c.op.op, j["path"] = c.op.path, j["phase"] = c.op.phase, j["tensor"] = c.op.tensor;
    list.push_back(std::move(j));
  }
  if (flags.json)
    fmt::print("{}\n", Json{{"equal", equal}, {"cases", list}}.dump(-1, ' ', true, Json::error_handler_t::replace));
  else
    fmt::print("{}\n", equal ? "all equal, bit for bit" : "NOT all equal");
  return equal ? 0 : 1;
}

}  // namespace

Command check_determinism_command() {
  return command<DeterminismFlags>(
      {.name = "check determinism",
       .summary = "repeat a short training: with other threads, with recomputation, resumed; compare all bits",
       .example = "ravine check determinism --config run.yaml --steps 4 precision.compute=bf16",
       .sections = {"model", "lora", "moe", "data", "train", "dpo", "optimizer", "schedule", "precision"},
       .alone = true},
      "", run_determinism);
}

}  // namespace ravine

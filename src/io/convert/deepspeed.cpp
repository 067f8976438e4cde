#include "io/convert/deepspeed.h"

#include <algorithm>
#include <filesystem>

#include "files/tokenizer_files.h"
#include "io/convert/zero_checkpoint.h"

namespace fs = std::filesystem;

namespace ravine {

Weights read_deepspeed(const std::string& path, const Json& config, const std::string& config_where, StateKind kind) {
  const ZeroRun run = read_zero_run(path);
  Weights w;
  w.config = config;
  w.config_where = config_where;
  for (const std::string& folder : {path, folder_of(run.folder)}) {
    const bool config_here = fs::exists(folder + "/config.json");
    if (w.folder.empty() && (config_here || has_tokenizer(folder))) w.folder = folder;
    if (w.config.is_null() && config_here) w.config = read_json(w.config_where = folder + "/config.json");
  }
  w.position = {.step = run.steps, .optimizer_steps = run.updates};
  if (run.steps > 0 && run.samples % run.steps == 0) w.position.global_batch = run.samples / run.steps;
  if (run.kept.is_object()) {  // written by a run of Ravine in DeepSpeed's format
    w.position.tokens = std::max<int64_t>(field_or(run.kept, "tokens", run.folder, int64_t{0}), 0);
    if (const auto it = run.kept.find("data"); it != run.kept.end()) w.data_history = *it;
  }
  w.tensors = is_moment(kind) ? read_zero_state(path, kind == StateKind::first_moment ? "exp_avg" : "exp_avg_sq")
                              : read_zero_weights(path);
  return w;
}

}  // namespace ravine

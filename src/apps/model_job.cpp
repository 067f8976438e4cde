#include "apps/model_job.h"

#include <algorithm>

#include "base/log.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/version.h"
#include "io/model_folder.h"
#include "io/stored_model.h"
#include "parallel/fit.h"
#include "runs/run_paths.h"
#include "step/arithmetic.h"
#include "step/layout.h"

namespace ravine {

LoadedModel open_model_job(World* world, const std::string& folder, const Config& config, Backend backend, OpenFor use,
                           const std::string& flags, const std::string& adapter) {
  check_model_folder(folder, "--model");
  const bool several = world && world->size() > 1;
  if (several) {
    check_same(world->all(), "program", program_version());
    check_same(world->all(), "options", flags + to_yaml(config));
  }
  if (!world || world->rank() == 0)
    for (const std::string& line :
         {older_than_its_run(folder), older_than_its_run(adapter), trained_on_other_base(adapter, folder)})
      if (!line.empty()) print_stderr(escaped("warning: " + line));
  const std::unique_ptr<Model> model = open_stored_model(folder);
  if (several) check_same(world->all(), "model", model->config().dump(1));
  InferenceLayout spread;
  spread.options = config.parallel;
  const Mesh mesh = mesh_of(config.parallel, several ? world->size() : 1, *model);
  if (several) {
    spread.ranks = std::make_shared<Ranks>(*world, mesh);
    spread.ranks_per_host = world->local_size();
  }
  const Arithmetic arithmetic = choose_arithmetic(config.precision, backend, common_arithmetic(spread.ranks->all()));
  return load_model(folder, arithmetic.compute, backend, use, arithmetic.products, spread, adapter, config.lora.base);
}

std::string describe_ranks(const LoadedModel& s) {
  int64_t bytes = 0;
  if (const auto* store = dynamic_cast<const InferenceStore*>(s.store.get())) bytes = store->weight_bytes();
  if (s.trainable) bytes = s.trainable->weight_bytes();
  const std::vector<int64_t> all = gather_integers(s.ranks().all(), bytes);
  auto human = [](int64_t n) { return human_bytes(static_cast<double>(n)); };
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  return fmt::format("{}, weights {} on each, {} thread{} each", s.ranks().mesh().text(),
                     *least == *most ? human(*most) : fmt::format("{} to {}", human(*least), human(*most)), thread_count(),
                     thread_count() > 1 ? "s" : "");
}

}  // namespace ravine

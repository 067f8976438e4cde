// Two pickles as the files of a DeepSpeed checkpoint: model states, and optimizer states of one rank. The result is
// a UserError, or the whole checkpoint can be read.
#include "base/error.h"
#include "io/convert/zero_checkpoint.h"
#include "scratch.h"
#include "torch_archive.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Scratch scratch;
  const auto [model, optimizer] = two_pickles(text_of(data, size));
  const std::string folder = scratch.folder() + "/step", shard = folder + "/zero_pp_rank_0_mp_rank_00_optim_states.pt";
  try {
    write_torch_archive(folder + "/mp_rank_00_model_states.pt", model);
    std::filesystem::remove(shard);
    if (!optimizer.empty()) write_torch_archive(shard, optimizer);  // none: stage 0
    std::vector<std::string> states;
    for (const std::string& key : read_zero_run(folder).states) states.push_back(key);
    for (const auto& [name, e] : read_zero_weights(folder)) read_elements(e);
    for (const std::string& key : states)
      for (const auto& [name, e] : read_zero_state(folder, key)) read_elements(e);
  } catch (const UserError&) {
  }
  return 0;
}

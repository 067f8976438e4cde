// Two pickles as the files of a rank of Megatron, model_optim_rng.pt and distrib_optim.pt. The result is a UserError,
// or weights, masters and moments that can be read.
#include "base/error.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/megatron_folder.h"
#include "scratch.h"
#include "torch_archive.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Scratch scratch;
  const auto [model, optimizer] = two_pickles(text_of(data, size));
  const std::string folder = scratch.folder() + "/iter", rank = folder + "/mp_rank_00", distrib = rank + "/distrib_optim.pt";
  write_torch_archive(rank + "/model_optim_rng.pt", model);
  std::filesystem::remove(distrib);
  if (!optimizer.empty()) write_torch_archive(distrib, optimizer);
  for (const StateKind kind : {StateKind::weights, StateKind::masters, StateKind::first_moment, StateKind::second_moment}) try {
      const MegatronFolder f = open_megatron(folder, kind);
      optimizer_steps(*f.ranks[0].file);
      kept_scalars_in(f.ranks[0].file->pickle());
      for (const auto& chunk : f.ranks[0].chunks)
        for (const MegatronRank::Tensor& t : chunk) read_elements(t.elements);
    } catch (const UserError&) {
    }
  return 0;
}

#include "base/launcher.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace ravine {
namespace {

using Variables = std::initializer_list<const char*>;

// Open MPI's mpirun; PMIx and PMI launchers (srun --mpi, MPICH).
constexpr Variables kLaunched{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
constexpr Variables kRank{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
constexpr Variables kRanks{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
constexpr const char* kTasks = "SLURM_NTASKS";  // PMIx sets the rank, but not the number of ranks
constexpr Variables kOthers{"WORLD_SIZE", "SLURM_STEP_NUM_TASKS"};
// Open MPI 4 and 5, Hydra (MPICH, Intel), UCX.
constexpr Variables kInterfaces{"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include",
                                "PRTE_MCA_oob_tcp_if_include", "HYDRA_IFACE",
                                "MPIR_CVAR_NETWORK_IFACE",     "UCX_NET_DEVICES"};
constexpr Variables kNoInterfaces{"OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_oob_tcp_if_exclude", "PRTE_MCA_oob_tcp_if_exclude"};

// Returns the value of the first variable that is set and not empty; null if none is.
const char* first_set(Variables variables) {
  for (const char* v : variables)
    if (const char* text = std::getenv(v); text && *text) return text;
  return nullptr;
}

std::string text_of(const char* text) { return text ? text : ""; }

}  // namespace

bool launched_as_rank() { return first_set(kLaunched) != nullptr; }

int launched_rank() {
  const char* rank = first_set(kRank);
  return rank ? std::atoi(rank) : 0;
}

int launched_ranks() {
  const char* ranks = first_set(kRanks);
  if (!ranks && launched_as_rank()) ranks = std::getenv(kTasks);
  return ranks ? std::max(1, std::atoi(ranks)) : 1;
}

bool launched_as_several() { return launched_ranks() > 1 || launched_rank() > 0; }

std::optional<OtherLauncher> other_launcher() {
  for (const char* v : kOthers)
    if (const char* ranks = std::getenv(v); ranks && std::atoi(ranks) > 1) return OtherLauncher{v, std::atoi(ranks)};
  return {};
}

std::string interfaces_of_mpi() { return text_of(first_set(kInterfaces)); }
std::string interfaces_not_of_mpi() { return text_of(first_set(kNoInterfaces)); }

}  // namespace ravine

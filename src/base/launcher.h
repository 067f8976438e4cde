// Environment variables that launchers (mpirun, srun, torchrun, ..) set, read before MPI is initialised.
#pragma once
#include <optional>
#include <string>

namespace ravine {

bool launched_as_rank();     // true if mpirun or srun started this process
int launched_rank();         // the rank; 0 if no launcher set one
int launched_ranks();        // the number of ranks; 1 if the launcher does not set it
bool launched_as_several();  // true if the launcher set more than one rank, or a rank above 0

// A launcher of other programs, e.g. torchrun: it sets the number of ranks, but MPI cannot connect them.
struct OtherLauncher {
  const char* variable;  // the environment variable that has the number of ranks
  int ranks;             // more than one
};
// Returns the launcher whose variable (WORLD_SIZE, SLURM_STEP_NUM_TASKS) has more than one rank; nothing if none has.
std::optional<OtherLauncher> other_launcher();

// Returns the network interfaces that the environment tells MPI to use, separated by commas; "" if none are set.
std::string interfaces_of_mpi();
// Returns the network interfaces that the environment tells MPI not to use, separated by commas; "" if none are set.
std::string interfaces_not_of_mpi();

}  // namespace ravine

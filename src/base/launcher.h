// Environment variables that launchers (mpirun, srun, torchrun, ..) set, read before MPI is initialised.
#pragma once
#include <optional>
#include <string>

namespace ravine {

bool launched_as_rank();     // true if mpirun or srun started this process
int launched_rank();         // the rank; 0 if no launcher set one
int launched_ranks();        // the number of ranks; 1 if the launcher does not set it
bool launched_as_several();  // true if the launcher set more than one rank, or a rank above 0

// A launcher that set a number of ranks which MPI cannot connect, e.g. torchrun. The result of other_launcher.
struct OtherLauncher {
  const char* variable;  // the environment variable that has the number of ranks
  int ranks;             // more than one
};
// Returns the launcher whose environment variable (WORLD_SIZE, SLURM_STEP_NUM_TASKS) holds a number of ranks above 1;
// nothing if neither variable does.
std::optional<OtherLauncher> other_launcher();

// Returns the network interfaces that the environment tells MPI to use, separated by commas; "" if none are set.
std::string interfaces_of_mpi();
// Returns the network interfaces that the environment tells MPI not to use, separated by commas; "" if none are set.
std::string interfaces_not_of_mpi();

}  // namespace ravine

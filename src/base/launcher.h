// What a launcher (mpirun, srun, torchrun, ..) says in the environment of a process, before MPI is initialised.
#pragma once
#include <optional>
#include <string>

namespace ravine {

bool launched_as_rank();     // by mpirun or srun
int launched_rank();         // as which rank; 0 where no launcher said one
int launched_ranks();        // of how many, as far as the launcher says; 1 where it does not
bool launched_as_several();  // as one of more than one, as far as the launcher says

// Launchers of other programs say how many they start, but not how these find each other here.
struct OtherLauncher {
  const char* variable;
  int ranks;  // more than one
};
std::optional<OtherLauncher> other_launcher();

// What MPI was told to use (and not to use): interfaces and networks, separated by commas.
std::string interfaces_of_mpi();
std::string interfaces_not_of_mpi();

}  // namespace ravine

// Linked instead of comm/mpi/ if MPI was not found at build time.
#include "base/error.h"
#include "comm/world.h"

namespace ravine {

std::unique_ptr<World> open_mpi_world();
std::unique_ptr<World> open_mpi_world() {
  throw UserError("this build has no MPI", "mpirun", "several ranks need it",
                  "install libopenmpi-dev and build again, or run without mpirun");
}

}  // namespace ravine

#include "comm/world.h"

#include <algorithm>
#include <cstdlib>

#include "base/host_name.h"

namespace ravine {

std::unique_ptr<World> open_mpi_world();  // mpi/world.cpp, or alone/no_mpi.cpp

namespace {

class LonelyWorld final : public World {
 public:
  LonelyWorld() { host_ = host_name(); }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const Group& all() const override { return self_; }
  std::unique_ptr<Group> group(const std::vector<int>&, std::string_view) override { return std::make_unique<SelfGroup>(); }

 private:
  SelfGroup self_;
};

}  // namespace

bool launched_as_rank() {
  // Open MPI's mpirun; PMIx and PMI launchers (srun --mpi, MPICH).
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(variable)) return true;
  return false;
}

int launched_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const char* text = std::getenv(variable)) return std::atoi(text);
  return 0;
}

int launched_ranks() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* text = std::getenv(variable)) return std::max(1, std::atoi(text));
  const char* tasks = launched_as_rank() ? std::getenv("SLURM_NTASKS") : nullptr;  // PMIx says only which rank this is
  return tasks ? std::max(1, std::atoi(tasks)) : 1;
}

bool launched_as_several() { return launched_ranks() > 1 || launched_rank() > 0; }

std::unique_ptr<World> open_world() {
  if (launched_as_rank()) return open_mpi_world();
  return std::make_unique<LonelyWorld>();
}

}  // namespace ravine

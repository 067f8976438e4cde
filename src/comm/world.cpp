#include "comm/world.h"

#include "base/host_name.h"
#include "base/launcher.h"

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

std::unique_ptr<World> open_world() {
  if (launched_as_rank()) return open_mpi_world();
  return std::make_unique<LonelyWorld>();
}

}  // namespace ravine

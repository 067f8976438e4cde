// A command that runs as one of several ranks, or as one process alone: opens the world, shares cores, watches over the others,
// and ends the job on every rank when one fails.
#pragma once
#include <functional>
#include <memory>

#include "comm/world.h"
#include "config/config.h"

namespace ravine {

class RankJob {
 public:
  // options: patience and interface, see Heartbeat. threads: what the user asked for, 0 if nothing: ranks that may use the same
  // cores then divide them.
  RankJob(const ParallelOptions& options, int64_t threads);
  ~RankJob();

  // Runs f with the world, or null if this process is alone; then exceptions are the caller's. Of several ranks a failure is
  // said once, by rank 0 if all fail alike, and ends this process and the others; what f refers to is not destroyed then, since
  // it may wait for ranks that are gone.
  int run(const std::function<void(World*)>& f);

 private:
  std::unique_ptr<World> world_;
  std::unique_ptr<Heartbeat> heartbeat_;
};

}  // namespace ravine

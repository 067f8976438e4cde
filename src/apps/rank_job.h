// A command that runs on several ranks, or in one process. It opens the world, divides the cores, watches the other
// ranks, and ends the job on all ranks if one fails.
#pragma once
#include <functional>
#include <memory>

#include "comm/world.h"
#include "config/config.h"

namespace ravine {

class RankJob {
 public:
  // Opens the world and starts the heartbeat. options: patience and interface, see Heartbeat. threads: the number that
  // the user set; 0: ranks that may use the same cores divide them.
  RankJob(const ParallelOptions& options, int64_t threads);
  ~RankJob();

  // Runs f and returns the exit status. f gets the world, or null in a single process, where exceptions go to the
  // caller. On several ranks a failure is reported once, by rank 0 if all fail alike, and ends all processes. Objects
  // that f refers to are not destroyed then: they may wait for ranks that have ended.
  int run(const std::function<void(World*)>& f);

 private:
  std::unique_ptr<World> world_;
  std::unique_ptr<Heartbeat> heartbeat_;
};

}  // namespace ravine

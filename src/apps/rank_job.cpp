#include "apps/rank_job.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include "base/error.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/text.h"

namespace ravine {
namespace {

// Returns the number of ranks of this host that may use the same cores as this rank, itself included.
int sharers(const World& world) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  std::string mine = world.host() + ":";
  for (int i = 0; i < CPU_SETSIZE; ++i) mine += CPU_ISSET(i, &mask) ? '1' : '0';
  std::vector<std::string> all = gather_texts(world.all(), mine);
  return static_cast<int>(std::count(all.begin(), all.end(), mine));
}

[[noreturn]] void leave(int status) {
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace

RankJob::RankJob(const ParallelOptions& options, int64_t threads) {
  if (!launched_as_rank()) {
    if (const auto other = other_launcher())
      print_stderr(fmt::format(
          "warning: {}={} is set, and this process is one alone: ranks are started by mpirun -n {} ravine .., or by srun --mpi=pmix",
          other->variable, other->ranks, other->ranks));
    return;
  }
  world_ = open_world();
  if (world_->size() == 1) return;
  int share = sharers(*world_);
  if (threads == 0 && !std::getenv("OMP_NUM_THREADS")) set_thread_count(std::max(1, thread_count() / share));
  heartbeat_ = std::make_unique<Heartbeat>(*world_, options.patience, leave, options.interface);
}

RankJob::~RankJob() = default;

int RankJob::run(const std::function<void(World*)>& f) {
  if (!heartbeat_) {
    f(world_.get());
    return 0;
  }
  std::string what;
  int status = 1;
  try {
    f(world_.get());
    world_->all().barrier();
    return 0;
  } catch (const Stopped& e) {  // all ranks agree
    std::fflush(stdout);
    if (world_->rank() == 0) print_stderr(escaped(e.what()));
    world_->all().barrier();
    return 130;
  } catch (const UserError& e) {
    what = e.what();
    status = 2;
  } catch (const std::bad_alloc&) {
    what = "memory: the machine has no more; use smaller batches or see `ravine plan`";
  } catch (const std::exception& e) {
    what = e.what();
  }
  std::fflush(stdout);
  heartbeat_->failed(what, status);
  // The heartbeat of rank 0 reports the error and ends this process.
  std::this_thread::sleep_for(std::chrono::seconds(5));
  leave(status);
}

}  // namespace ravine

// The ranks of this job: started by mpirun or srun, or one alone. MPI is called in comm/mpi/ only.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/group.h"

namespace ravine {

// A call of a group, as the heartbeat names it.
struct WaitPlace {
  std::string call, group;
};

// What this rank waits for right now, told to the others by the heartbeat's thread.
struct WaitState {
  std::atomic<const WaitPlace*> now{nullptr};  // null: nothing
  std::deque<WaitPlace>
      places;  // all that there ever were: they stay as long as the world, groups do not. For the main thread alone
};

class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const Group& all() const = 0;
  // The group of these ranks of the world, this rank among them. Every rank of the world calls, at the same time, with its own
  // group. `name` is for messages: the axis.
  virtual std::unique_ptr<Group> group(const std::vector<int>& ranks, std::string_view name) = 0;

  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }
  const WaitState& waits() const { return waits_; }

 protected:
  int local_size_ = 1;
  std::string host_;
  WaitState waits_;
};

// MPI is initialised only where a launcher started this process as one of several (or one) ranks; otherwise the world is this
// process. A build without MPI refuses to be one of several ranks. MPI begins once in a process and ends with the world that
// began it: worlds opened while that one lives come and go.
std::unique_ptr<World> open_world();

// Watches over the ranks from a thread of its own, over sockets beside MPI: every rank says every second that it is alive and
// what it waits for. A rank that is gone or silent for `patience` seconds ends the job on every rank: a line on stderr names
// rank, host and what the others waited for, and `end` is called. A rank that computes for long is not silent: the thread
// speaks for it.
class Heartbeat {
 public:
  // Ends the process with this status, from any thread; must not return. `apps` decides how.
  using EndProcess = std::function<void(int status)>;

  // Blocks until every rank of the world is connected. One rank: nothing to watch. Rank 0 listens on one address, which
  // `interface` names (comm/interfaces.h; empty: chosen there); whoever else connects is dropped. A name that fits no interface
  // is a UserError on all ranks.
  Heartbeat(World& world, double patience, EndProcess end, const std::string& interface = "");
  ~Heartbeat();  // when all ranks have agreed that the job is over
  Heartbeat(const Heartbeat&) = delete;
  // Tells that this rank failed: within two seconds rank 0 says so, with what the others wait for, and every process of the job
  // ends with `status`. If all ranks fail alike it is said once. Returns at once; the caller must stay alive until it is
  // ended, 5 s at least.
  void failed(const std::string& why, int status);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravine

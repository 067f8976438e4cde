// The ranks of this job, started by mpirun or srun, or a single process. MPI is called only in comm/mpi/.
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

// A call of a group, with the names used by the heartbeat.
struct WaitPlace {
  std::string call, group;
};

// The call that this rank waits in now; the heartbeat's thread sends it to the others.
struct WaitState {
  std::atomic<const WaitPlace*> now{nullptr};  // null: not waiting
  std::deque<WaitPlace>
      // All places ever made: they live as long as the world, since groups do not. For the main thread alone.
      places;
};

class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const Group& all() const = 0;
  // Creates the group of these ranks of the world, which include this rank. All ranks of the world call it together,
  // each with its own group. `name` is for messages: the axis.
  virtual std::unique_ptr<Group> group(const std::vector<int>& ranks, std::string_view name) = 0;

  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }
  const WaitState& waits() const { return waits_; }

 protected:
  int local_size_ = 1;
  std::string host_;
  WaitState waits_;
};

// Opens the world. MPI is initialized only if a launcher started this process as a rank; otherwise the world is this
// process alone. A build without MPI throws a UserError in a process that a launcher started.
// MPI ends with the world that initialized it: other worlds may be opened and closed while that world lives.
std::unique_ptr<World> open_world();

// Monitors the ranks from its own thread, over sockets independent of MPI. Every second each rank reports that it is
// alive and what it waits for. A rank that has exited, or has not answered for `patience` seconds, ends the job on
// every rank. A line on stderr names rank, host and what the others waited for, and `end` is called. A rank in a long
// computation still answers, since the thread sends for it.
class Heartbeat {
 public:
  // Ends the process with this status, from any thread; must not return. Defined in `apps`.
  using EndProcess = std::function<void(int status)>;

  // Blocks until every rank of the world is connected. With one rank it does nothing. Rank 0 listens on one address,
  // selected by `interface` (comm/interfaces.h; empty: automatic); connections from other programs are dropped. A name
  // that matches no interface is a UserError on all ranks.
  Heartbeat(World& world, double patience, EndProcess end, const std::string& interface = "");
  ~Heartbeat();  // call it only after all ranks agreed that the job is over
  Heartbeat(const Heartbeat&) = delete;
  // Reports that this rank failed. Within two seconds rank 0 prints it, with what the others wait for, and every
  // process of the job ends with `status`. If all ranks fail alike, the message is printed once. Returns at once; the
  // caller must stay alive until it is ended, at least 5 s.
  void failed(const std::string& why, int status);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravine

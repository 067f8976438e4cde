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

// The names of a kind of call and of its group (e.g. its axis), which the heartbeat prints for a waiting rank.
struct WaitName {
  std::string call, group;
};

// The call in which this rank waits now. The thread of the heartbeat sends it to the other ranks.
struct WaitState {
  std::atomic<const WaitName*> now{nullptr};  // null: not waiting
  // Storage of all WaitNames: they live as long as the world, since groups do not. Used by the main thread alone.
  std::deque<WaitName> names;
};

class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const Group& all() const = 0;
  // Creates the group of the given ranks of the world, which include this rank. All ranks of the world call it
  // together, each with its own group. `name` is for messages: the axis of the mesh.
  virtual std::unique_ptr<Group> group(const std::vector<int>& ranks, std::string_view name) = 0;

  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }
  const WaitState& waits() const { return waits_; }

 protected:
  int local_size_ = 1;
  std::string host_;
  WaitState waits_;
};

// Returns the ranks of this job. MPI is initialized only if a launcher started this process as a rank; otherwise the
// world is this process alone. A build without MPI throws a UserError in a process that a launcher started.
// MPI ends with the world that initialized it: other worlds may be opened and closed while that world lives.
std::unique_ptr<World> open_world();

// Monitors the ranks from its own thread, over sockets independent of MPI. Every second each rank reports that it is
// alive and what it waits for. A rank that has exited, or has not answered for `patience` seconds, ends the job on
// every rank. A line on stderr names rank, host and what the others waited for, and `end` is called. A rank in a long
// computation still answers, since the thread sends for it.
class Heartbeat {
 public:
  // A function that ends the process with this status, from any thread; it must not return. Defined in `apps`.
  using EndProcess = std::function<void(int status)>;

  // Connects the ranks, and blocks until every rank of the world is connected. With one rank it does nothing.
  // `patience` is in seconds. Rank 0 listens on one address, selected by `interface` (comm/interfaces.h; empty:
  // automatic); connections from other programs are dropped. A name that matches no interface is a UserError on all
  // ranks.
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

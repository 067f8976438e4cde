// One rank of a job in which rank 2 fails: mpirun -n 4 dist_faulty kill|wait|stop|throw|two|slow. With `two` rank 0
// fails, then rank 2. The other ranks wait in a collective. Patience is 3 s. tests/dist/faults.py checks each rank.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/world.h"

int main(int argc, char** argv) {
  std::string harm = argc > 1 ? argv[1] : "";
  auto world = ravine::open_world();
  ravine::Heartbeat heartbeat(*world, 3, _exit);
  auto group = world->group({0, 1, 2, 3}, "data");
  group->barrier();
  auto pair = world->group(world->rank() % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3}, "pair");
  try {
    if (harm == "two" && world->rank() == 0) {
      heartbeat.failed("the roof has come down", 5);
      pair->barrier();
      sleep(5);
      return 5;
    }
    if (harm == "two" && world->rank() == 2) {
      pair->barrier();
      throw std::runtime_error("the disk is on fire");
    }
    if (world->rank() == 2) {
      if (harm == "kill" || harm == "stop") {
        kill(getpid(), harm == "kill" ? SIGKILL : SIGSTOP);
        for (;;) pause();  // another thread may get the signal
      }
      if (harm == "wait")  // killed after all ranks know that it waits
        std::thread([] {
          sleep(3);
          kill(getpid(), SIGKILL);
        }).detach();
      if (harm == "throw") throw std::runtime_error("the disk is on fire");
      if (harm == "slow") sleep(8);  // computes for long
    }
    if (harm == "wait" && world->rank() == 3) sleep(8);
    ravine::gather_integers(*group, 1);
  } catch (const std::exception& e) {
    heartbeat.failed(e.what(), 7);
    sleep(5);
    return 7;
  }
  if (world->rank() == 0) std::puts("done");
  return 0;
}

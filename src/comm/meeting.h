// Sockets between the ranks of a job: one listens, the others come. Strangers may come too, and keep nobody waiting.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "comm/socket.h"

namespace ravine {

// A socket that listens on this address alone; the system chooses the port. Error if it cannot be had.
Socket listen_on(const std::string& address, int* port);

struct Visitor {
  Socket socket;
  std::string hello;
};

// Waits until `count` visitors have sent a hello of `size` bytes that `ours` takes. All who have come are heard at once; who
// says something else, or nothing for some seconds, is dropped. Error after `seconds` without all of ours.
std::vector<Visitor> meet(const Socket& listener, int count, size_t size, const std::function<bool(const std::string&)>& ours,
                          double seconds);

// A socket to that address, tried for `seconds`; Error naming it.
Socket reach(const std::string& address, int port, double seconds);

}  // namespace ravine

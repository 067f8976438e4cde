// Connects the ranks of a job by sockets: one listens, the others connect. Connections from other programs do not delay
// them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "comm/socket.h"

namespace ravine {

// Returns a socket that listens on this address alone. The system chooses the port, and `port` is set to it. Throws an
// Error if that fails.
Socket listen_on(const std::string& address, int* port);

// A connection that meet() accepted: its socket, and the hello that the other side sent.
struct Visitor {
  Socket socket;
  std::string hello;
};

// Accepts connections until `count` of them have sent a hello of `size` bytes that `ours` accepts, and returns these.
// All connections are read concurrently; one that sends other bytes, or nothing for some seconds, is dropped. Throws an
// Error if fewer have come after `seconds`.
std::vector<Visitor> meet(const Socket& listener, int count, size_t size, const std::function<bool(const std::string&)>& ours,
                          double seconds);

// Returns a socket connected to this address and port. Retries for at most `seconds`, then throws an Error that names
// the address.
Socket reach(const std::string& address, int port, double seconds);

}  // namespace ravine

// Which address the ranks of a job meet at, beside MPI. IPv4.
//
// Why there is a choice: the heartbeat tells of a rank that is gone while MPI waits for it, so it has connections of its own.
// What they need is exchanged over MPI (the interfaces of each host; the port of rank 0 and a token), but MPI does not say by
// which address one host reaches another, and not every address serves: a bridge of containers has the same one on each host, a
// network may be closed. To listen on all addresses and let the others try would be shorter; then the port would be open to every
// network that the host is in, also those that are not the job's.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ravine {

struct Interface {
  std::string name;
  uint32_t address = 0, mask = 0;  // in the byte order of this machine
};

struct HostInterfaces {
  std::string host;
  std::vector<Interface> list;  // those that are up, loopback among them
};

HostInterfaces interfaces_of_host();
std::string to_text(const HostInterfaces& host);  // for the other ranks: "node7 lo=127.0.0.1/8 eth0=10.0.0.7/24"
HostInterfaces interfaces_from_text(const std::string& text);

// The address of hosts[0] to listen on, where the others reach it; hosts are of ranks and may repeat. `wanted`: an interface,
// address or network that hosts[0] has, else UserError; empty: the first of `mpi` that it has; else 127.0.0.1 on one host; else
// on a network that all hosts are in with an address of their own each. A bridge that has the same address on every host is
// none; nor is any of `not_mpi`. Failing that, the first address that no other host has.
std::string meeting_address(const std::vector<HostInterfaces>& hosts, const std::string& wanted, const std::string& mpi,
                            const std::string& not_mpi);

}  // namespace ravine

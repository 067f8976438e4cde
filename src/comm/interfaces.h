// Which address the ranks of a job meet at, beside MPI. IPv4.
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

// What MPI was told to use (and not to use): interfaces and networks, separated by commas, as variables of its launchers say.
std::string interfaces_of_mpi();
std::string interfaces_not_of_mpi();

// The address of hosts[0] to listen on, where the others reach it; hosts are of ranks and may repeat. `wanted`: an interface,
// address or network that hosts[0] has, else UserError; empty: the first of `mpi` that it has; else 127.0.0.1 on one host; else
// on a network that all hosts are in with an address of their own each. A bridge that has the same address on every host is
// none; nor is any of `not_mpi`. Failing that, the first address that no other host has.
std::string meeting_address(const std::vector<HostInterfaces>& hosts, const std::string& wanted, const std::string& mpi,
                            const std::string& not_mpi);

}  // namespace ravine

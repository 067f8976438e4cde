// Chooses the address at which the ranks of a job connect, independent of MPI. IPv4.
//
// Reason for the choice: the heartbeat reports a lost rank while MPI waits for it, so it has its own connections. The
// needed data is exchanged over MPI (the interfaces of each host; the port of rank 0 and a token). But MPI does not
// tell by which address one host reaches another. Not every address works: a bridge of containers has the same address
// on each host, and a network may be closed. Listening on all addresses would be simpler, but would open the port to
// every network of the host, including those outside the job.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ravine {

struct Interface {
  std::string name;
  uint32_t address = 0, mask = 0;  // in host byte order
};

struct HostInterfaces {
  std::string host;
  std::vector<Interface> list;  // network interfaces of the host that are up, including loopback
};

HostInterfaces interfaces_of_host();
std::string to_text(const HostInterfaces& host);  // for other ranks: "node7 lo=127.0.0.1/8 eth0=10.0.0.7/24"
HostInterfaces interfaces_from_text(const std::string& text);

// Returns the address of hosts[0] on which rank 0 listens, and which the other hosts can reach. `hosts` has an entry
// per rank and may repeat hosts. `wanted` is an interface, address or network of hosts[0], else a UserError. If
// `wanted` is empty: 127.0.0.1 if all ranks are on one host; else the first entry of `mpi` that hosts[0] has; else the
// address on a network in which every host has its own address; else the first address that no other host has. The last
// two cases skip addresses that another host has too (a bridge), and addresses of `not_mpi`.
std::string meeting_address(const std::vector<HostInterfaces>& hosts, const std::string& wanted, const std::string& mpi,
                            const std::string& not_mpi);

}  // namespace ravine

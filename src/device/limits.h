// Memory limits of the system for this process. available_memory() of device.h is the least of these and of the free
// memory.
#pragma once
#include <cstdint>
#include <string>

namespace ravine {

// Returns the bytes of memory that the limits of the cgroups leave to this process: its cgroups and their parents, of
// both cgroup versions. `membership` (/proc/self/cgroup) names the groups, `mount` is /sys/fs/cgroup. Page cache that
// can be dropped counts as free. The largest int64_t if there is no limit.
int64_t cgroup_room(const std::string& mount, const std::string& membership);
// Returns the bytes of address space that RLIMIT_AS and RLIMIT_DATA leave to this process; the largest int64_t if there
// is no limit.
int64_t process_room();

}  // namespace ravine

// What the system lets this process take of memory; available_memory() of device.h is the least of these and of what is free.
#pragma once
#include <cstdint>
#include <string>

namespace ravine {

// What the cgroups that `membership` (/proc/self/cgroup) names under `mount` (/sys/fs/cgroup), and those above them, leave, in
// bytes; both versions of cgroups. Page cache that can be dropped counts as free. The largest number if none has a limit.
int64_t cgroup_room(const std::string& mount, const std::string& membership);
// What RLIMIT_AS and RLIMIT_DATA leave of address space; the largest number without them.
int64_t process_room();

}  // namespace ravine

#include "device/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "device/device.h"

namespace ravine {
namespace {
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Returns the number after `key` in a file of "key number" lines; 0 if there is none.
int64_t field_in(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key, 0) == 0 && line.size() > key.size() && (line[key.size()] == ' ' || line[key.size()] == ':'))
      return std::atoll(line.c_str() + key.size() + 1);
  return 0;
}

int64_t meminfo(const std::string& key) { return field_in("/proc/meminfo", key) * 1024; }

// Returns the first number in a file; 0 if there is none ("max").
int64_t number_in(const std::string& path) {
  std::ifstream in(path);
  int64_t n = 0;
  return in >> n ? n : 0;
}

// Returns the bytes left in one cgroup. Page cache that can be dropped counts as free.
int64_t room_of(const std::string& folder, const char* limit_file, const char* usage_file, const char* cache_key) {
  int64_t limit = number_in(folder + "/" + limit_file);
  if (limit <= 0 || limit >= int64_t{1} << 60) return kNoLimit;
  int64_t used = number_in(folder + "/" + usage_file) - field_in(folder + "/memory.stat", cache_key);
  return std::max<int64_t>(0, limit - std::max<int64_t>(0, used));
}

int64_t rlimit_room(int kind, const std::string& used_key) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(kind), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur > static_cast<rlim_t>(int64_t{1} << 60))
    return kNoLimit;
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - field_in("/proc/self/status", used_key) * 1024);
}
}  // namespace

int64_t cgroup_room(const std::string& mount, const std::string& membership) {
  namespace fs = std::filesystem;
  int64_t room = kNoLimit;
  std::ifstream in(membership);
  for (std::string line; std::getline(in, line);) {
    size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    bool unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    std::string root = unified ? mount : mount + "/memory";
    // The limits of parent groups apply too. In a container the path may name groups that are not visible.
    for (fs::path path = line.substr(second + 1);; path = path.parent_path()) {
      std::string folder = root + path.string();
      room = std::min(room, unified ? room_of(folder, "memory.max", "memory.current", "inactive_file")
                                    : room_of(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"));
      if (path.empty() || path == path.parent_path()) break;
    }
  }
  return room;
}

int64_t process_room() { return std::min(rlimit_room(RLIMIT_AS, "VmSize"), rlimit_room(RLIMIT_DATA, "VmData")); }

int64_t system_memory() {
  int64_t limit = number_in("/sys/fs/cgroup/memory.max"), total = meminfo("MemTotal");
  return limit > 0 ? std::min(total, limit) : total;
}

int64_t available_memory() {
  return std::min({meminfo("MemAvailable"), cgroup_room("/sys/fs/cgroup", "/proc/self/cgroup"), process_room()});
}

int64_t resident_memory() {
  std::ifstream in("/proc/self/statm");
  int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t peak_resident_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace ravine

#include "device/device.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"

namespace ravine {

std::string_view name(MemoryKind kind) {
  constexpr std::string_view names[kMemoryKinds] = {"weights", "gradients", "optimizer", "activations", "workspace", "cache"};
  return names[static_cast<int>(kind)];
}

namespace {
constexpr int64_t kHugePage = int64_t{2} << 20;
}

Storage::Storage(DeviceKind device, int64_t bytes) : bytes_(bytes), device_(device) {
  require(bytes >= 0, "storage: size {} is negative", bytes);
  if (device == DeviceKind::meta || bytes == 0) return;
  void* p = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(p != MAP_FAILED, "storage: the system gave no memory for {} bytes", bytes);
  if (bytes >= 4 * kHugePage) madvise(p, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(p);
}

Storage::~Storage() {
  if (data_) munmap(data_, static_cast<size_t>(bytes_));
}

Storage::Storage(Storage&& o) noexcept
    : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)), device_(o.device_) {}

Storage& Storage::operator=(Storage&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
  std::swap(device_, o.device_);
  return *this;
}

void Storage::touch() {
  if (!data_) return;
  parallel_for(ceil_div(bytes_, kHugePage), [&](int64_t i) {
    for (int64_t at = i * kHugePage; at < std::min(bytes_, (i + 1) * kHugePage); at += 4096)
      reinterpret_cast<volatile std::byte*>(data_)[at] = std::byte{0};
  });
}

namespace {
int64_t meminfo(const std::string& key) {
  std::ifstream in("/proc/meminfo");
  for (std::string name, unit; in >> name;) {
    int64_t kib = 0;
    in >> kib;
    std::getline(in, unit);
    if (name == key + ":") return kib * 1024;
  }
  return 0;
}

int64_t number_in(const char* path) {
  std::ifstream in(path);
  int64_t n = 0;
  return in >> n ? n : 0;
}
}  // namespace

int64_t system_memory() {
  int64_t total = meminfo("MemTotal"), limit = number_in("/sys/fs/cgroup/memory.max");
  return limit > 0 ? std::min(total, limit) : total;
}

int64_t available_memory() {
  int64_t free = meminfo("MemAvailable"), limit = number_in("/sys/fs/cgroup/memory.max");
  return limit > 0 ? std::min(free, limit - number_in("/sys/fs/cgroup/memory.current")) : free;
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

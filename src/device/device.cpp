#include "device/device.h"

#include <sys/mman.h>

#include <algorithm>
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
  if (bytes >= kHugePage) madvise(p, static_cast<size_t>(bytes), MADV_HUGEPAGE);
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

void Storage::forget() {
  if (data_) madvise(data_, static_cast<size_t>(bytes_), MADV_DONTNEED);
}

void Storage::touch() {
  if (!data_) return;
  parallel_for(ceil_div(bytes_, kHugePage), [&](int64_t i) {
    for (int64_t at = i * kHugePage; at < std::min(bytes_, (i + 1) * kHugePage); at += 4096)
      reinterpret_cast<volatile std::byte*>(data_)[at] = std::byte{0};
  });
}

}  // namespace ravine

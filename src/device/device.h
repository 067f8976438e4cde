// Kinds of devices and of memory, and Storage. meta: a device with shapes and sizes but no bytes; a run on it makes the
// memory plan.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ravine {

enum class DeviceKind : uint8_t { cpu, meta };

// The use of a block of memory. Plans and logs report bytes by these kinds.
enum class MemoryKind : uint8_t { weights, gradients, optimizer, activations, workspace, cache };
inline constexpr int kMemoryKinds = 6;
std::string_view name(MemoryKind kind);

inline constexpr int64_t kAlignment = 64;  // of every allocation, in bytes (one cache line, one AVX-512 register)

// A block of memory that is filled with zero, aligned to pages, and freed by the destructor; in huge pages if the
// system has them. On the meta device it has a size but no bytes. An Error if the system has no memory left.
class Storage {
 public:
  Storage() = default;
  Storage(DeviceKind device, int64_t bytes);
  ~Storage();
  Storage(Storage&& other) noexcept;
  Storage& operator=(Storage&& other) noexcept;
  std::byte* data() const { return data_; }  // nullptr on meta
  int64_t bytes() const { return bytes_; }
  DeviceKind device() const { return device_; }
  // Returns the pages of this memory to the system. The values are lost; pages are allocated again when they are
  // touched.
  void forget();
  void touch();  // makes the pages resident now, in parallel (first touch by the compute threads)

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  DeviceKind device_ = DeviceKind::cpu;
};

int64_t system_memory();         // bytes of RAM that this process may use, within the limit of its cgroup (version 2)
int64_t available_memory();      // bytes that are free or can be freed now, within all limits
int64_t resident_memory();       // bytes of this process now
int64_t peak_resident_memory();  // largest resident bytes of this process so far (ru_maxrss)

}  // namespace ravine

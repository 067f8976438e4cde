// Where memory lives, and memory itself. meta: shapes and sizes only, no bytes; a run on it gives the memory plan.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ravine {

enum class DeviceKind : uint8_t { cpu, meta };

// What a piece of memory is for; plans and logs report by kind.
enum class MemoryKind : uint8_t { weights, gradients, optimizer, activations, workspace, cache };
inline constexpr int kMemoryKinds = 6;
std::string_view name(MemoryKind kind);

inline constexpr int64_t kAlignment = 64;  // bytes; of every allocation (one cache line, one AVX-512 register)

// Owns one zero-filled range of memory, aligned to pages, in huge pages where the system gives them. On meta it has a size and
// no bytes. Throws Error when the system has no memory left.
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
  void forget();  // gives the pages back; what was there is lost, and pages come again as they are touched
  void touch();   // makes the pages resident now, in parallel (first touch by the compute threads)

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  DeviceKind device_ = DeviceKind::cpu;
};

int64_t system_memory();         // bytes of RAM this process may use (cgroup limit included)
int64_t available_memory();      // bytes that are free or can be freed now
int64_t resident_memory();       // of this process, now
int64_t peak_resident_memory();  // ru_maxrss of this process, in bytes

}  // namespace ravine

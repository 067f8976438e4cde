// Section offload: the memory that holds states between uses.
#pragma once
#include <string>

#include "config/bounds.h"
#include "config/choice.h"
#include "config/option.h"

namespace ravine {

enum class OffloadTo : uint8_t { none, cpu, disk };
constexpr auto names_of(OffloadTo) {
  using enum OffloadTo;
  return std::to_array<ValueName<OffloadTo>>({{none, "none"}, {cpu, "cpu"}, {disk, "disk"}});
}

struct OffloadOptions {
  OffloadTo optimizer = OffloadTo::none, params = OffloadTo::none;
  std::string path;
  int64_t block_kb = 1024, queue_depth = 32, threads = 1, buffers = 4;
  bool pin = true;
  bool uses_disk() const { return optimizer == OffloadTo::disk || params == OffloadTo::disk; }
  template <class V>
  void each(V&& v) {
    v("optimizer", optimizer, "where optimizer states are kept: none, cpu, or disk (a file in offload.path)",
      may_change() &
          detail(
              "Masters of 16-bit copies are kept with the states. cpu is the memory of the host, in which the CPU backend keeps all."));
    v("params", params, "where weights are kept between uses: none, cpu or disk", may_change());
    v("path", path, "folder for offload to disk; a rank has one unnamed file, which ends with the process",
      writes() & metavar("DIR") & may_change());
    v("block_kb", block_kb, "size of a disk request in KiB (aio of DeepSpeed); no effect, the system moves pages",
      between(1, 1 << 20) & may_change());
    v("queue_depth", queue_depth, "disk requests at a time (aio of DeepSpeed); no effect", between(1, 4096) & may_change());
    v("threads", threads, "threads for disk requests (aio of DeepSpeed); no effect", between(1, 256) & may_change());
    v("buffers", buffers, "buffers for disk requests (DeepSpeed's buffer_count); no effect", between(1, 1024) & may_change());
    v("pin", pin, "pinned host memory for a GPU; no effect on CPUs", may_change());
  }
};

}  // namespace ravine

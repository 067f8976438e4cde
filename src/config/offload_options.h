// The section offload of a run's options: where what a run keeps between its steps lies.
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
  bool asks_for_disk() const { return optimizer == OffloadTo::disk || params == OffloadTo::disk; }
  template <class V>
  void each(V&& v) {
    v("optimizer", optimizer,
      "where states of the optimizer lie, and masters of 16-bit copies with them: cpu is memory of the host, where the CPU backend has them anyway; disk: a file in offload.path",
      may_change());
    v("params", params, "where weights lie between their uses, in the same words", may_change());
    v("path", path, "folder for what lies on a disk, in one file of each rank without a name, which goes with the process",
      writes() & metavar("DIR") & may_change());
    v("block_kb", block_kb, "of DeepSpeed's aio: KiB of one request; the system moves pages here, so this changes nothing",
      between(1, 1 << 20) & may_change());
    v("queue_depth", queue_depth, "of the same: requests under way at once", between(1, 4096) & may_change());
    v("threads", threads, "of the same: threads that read and write", between(1, 256) & may_change());
    v("buffers", buffers, "of the same: pieces in memory at once", between(1, 1024) & may_change());
    v("pin", pin, "of a GPU: memory of the host that the system does not move", may_change());
  }
};

}  // namespace ravine

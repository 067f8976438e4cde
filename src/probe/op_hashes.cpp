#include "probe/op_hashes.h"

#include <fmt/format.h>

#include "files/checksum.h"

namespace ravine {

uint64_t checksum_of_view(const TensorView& v) {
  Checksum sum;
  int64_t bytes = v.cols() * size_of(v.dtype);
  if (v.contiguous()) bytes *= v.rows();
  for (int64_t r = 0; r < (v.contiguous() ? 1 : v.rows()); ++r)
    sum.update({static_cast<const std::byte*>(v.data) + r * v.stride * size_of(v.dtype), static_cast<size_t>(bytes)});
  return sum.value();
}

void OpHashes::after(const CallInfo& call) {
  if (difference_.step > 0) return;
  Phase like = call.phase == Phase::recompute ? Phase::forward : call.phase;
  for (const NamedView& t : call.tensors) {
    if (t.access == Access::read || !t.view.data) continue;
    ++seen_;
    std::string text =
        fmt::format("{}/{}/{}/{}/{}/{}/{}", call.step, call.micro + 1, name(like), call.path, call.op, call.ordinal, t.name);
    uint64_t key = checksum_of(std::as_bytes(std::span(text)));
    if (!reference_) {
      if (call.phase != Phase::recompute) hashes_.emplace(key, checksum_of_view(t.view));
      continue;
    }
    auto it = reference_->hashes_.find(key);
    if (it == reference_->hashes_.end()) continue;
    ++compared_;
    if (it->second == checksum_of_view(t.view)) continue;
    difference_ = {call.step, call.micro + 1, call.op, std::string(call.path), std::string(name(call.phase)), t.name};
    return;
  }
}

}  // namespace ravine

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

void OpHashes::begin_step(int64_t step) {
  step_ = step;
  micro_ = 0;
  last_ = Phase::update;
  times_.clear();
}

void OpHashes::after(const CallInfo& call) {
  if (difference_.step > 0) return;
  if (call.phase == Phase::forward && last_ != Phase::forward) {  // the next micro batch
    ++micro_;
    times_.clear();
  }
  last_ = call.phase;
  int time = times_[{static_cast<int>(call.phase), std::string(call.path), call.op}]++;
  Phase like = call.phase == Phase::recompute ? Phase::forward : call.phase;
  for (const NamedView& t : call.tensors) {
    if (t.access == Access::read || !t.view.data) continue;
    ++seen_;
    std::string text = fmt::format("{}/{}/{}/{}/{}/{}/{}", step_, micro_, name(like), call.path, call.op, time, t.name);
    uint64_t key = checksum_of(std::as_bytes(std::span(text)));
    if (!reference_) {
      if (call.phase != Phase::recompute) hashes_.emplace(key, checksum_of_view(t.view));
      continue;
    }
    auto it = reference_->hashes_.find(key);
    if (it == reference_->hashes_.end()) continue;
    ++compared_;
    if (it->second == checksum_of_view(t.view)) continue;
    difference_ = {step_, micro_, call.op, std::string(call.path), std::string(name(call.phase)), t.name};
    return;
  }
}

}  // namespace ravine

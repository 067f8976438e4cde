// Tasks that the first thread that needs the result executes, while other threads that need it wait.
#pragma once
#include <atomic>
#include <cstdint>
#include <new>
#include <thread>

namespace ravine {

class FirstUse {
 public:
  // Sets up n tasks, none of them done. Their states are stored in `memory`, of at least bytes(n) bytes.
  FirstUse(void* memory, int64_t n) : states_(static_cast<std::atomic<int32_t>*>(memory)) {
    for (int64_t i = 0; i < n; ++i) new (states_ + i) std::atomic<int32_t>(kUntouched);
  }
  static int64_t bytes(int64_t n) { return n * static_cast<int64_t>(sizeof(std::atomic<int32_t>)); }

  bool done(int64_t i) const { return states_[i].load(std::memory_order_relaxed) == kDone; }

  // Runs `work` for task i, unless another thread does or did it; returns when the task is done. `work` must not throw.
  template <class F>
  void operator()(int64_t i, F&& work) const {
    std::atomic<int32_t>& state = states_[i];
    if (state.load(std::memory_order_acquire) == kDone) return;
    int32_t seen = kUntouched;
    if (state.compare_exchange_strong(seen, kBegun)) {
      work();
      return state.store(kDone, std::memory_order_release);
    }
    while (state.load(std::memory_order_acquire) != kDone) std::this_thread::yield();
  }

 private:
  enum : int32_t { kUntouched, kBegun, kDone };
  std::atomic<int32_t>* states_;
};

}  // namespace ravine

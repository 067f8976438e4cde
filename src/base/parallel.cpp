// A pool of threads that live until the process ends. The pool runs one loop at a time, published in `state_`. While
// the loop is open, a thread enters it by adding itself to the number of threads inside; it takes indices from `next_`.
// The caller works too. When no index is left it closes the loop and waits for the threads that are inside. A thread
// that sleeps or has no core does not delay the loop. Between loops threads spin for kSpin seconds, then sleep. Loops
// in quick succession start at once, and idle threads do not take cores from other processes.
#include "base/parallel.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace ravine {
namespace {

constexpr double kSpin = 50e-6;  // seconds

using Word = std::atomic<uint32_t>;  // a futex

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Blocks while word == seen. May return early.
void sleep_while(Word& word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}
void wake_all(Word& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

// Waits until done(word): spins for kSpin seconds, then sleeps. `sleepers` counts sleeping threads, which need a
// wake-up.
template <class F>
uint32_t wait_until(Word& word, Word& sleepers, F&& done) {
  uint32_t seen = word.load(std::memory_order_acquire);
  if (done(seen)) return seen;
  const double end = seconds_now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      pause();
      if (done(seen = word.load(std::memory_order_acquire))) return seen;
    }
  } while (seconds_now() < end);
  sleepers.fetch_add(1);  // sequentially consistent, before the word is read: either side sees the other's change
  while (!done(seen = word.load())) sleep_while(word, seen);
  sleepers.fetch_sub(1);
  return seen;
}

thread_local int inside = -1;  // number of this thread while it is in a loop, else -1

class Pool {
 public:
  // The pool of the process. Never destroyed: its threads sleep when the process ends.
  static Pool& one() {
    static Pool& pool = *new Pool;
    return pool;
  }

  void run(int64_t n, int threads, const std::function<void(int64_t, int)>& f) {
    std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) {  // another thread of the program runs a loop
      for (int64_t i = 0; i < n; ++i) f(i, 0);
      return;
    }
    for (; started_ < threads; ++started_) std::thread([this, me = started_] { serve(me); }).detach();
    f_ = &f, n_ = n, limit_ = threads;
    next_.store(0, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    const uint32_t open = ((state_.load(std::memory_order_relaxed) | (kRound - 1)) + 1) | kOpen;
    state_.store(open);
    if (sleepers_.load() != 0) wake_all(state_);
    work(0);
    state_.fetch_and(~kOpen, std::memory_order_acq_rel);
    wait_until(state_, callers_, [](uint32_t s) { return (s & (kRound - 1)) == 0; });
    if (failed_.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  // Bits of state_: bit 0 is set while the loop is open; bits 1-14 count the threads inside; the rest is the loop's
  // number.
  static constexpr uint32_t kOpen = 1, kInside = 2, kRound = 1 << 15;

  void serve(int me) {
    uint32_t last = 0;  // number of the loop that this thread has finished
    for (;;) {
      uint32_t s = wait_until(state_, sleepers_, [&](uint32_t s) { return (s & kOpen) && s / kRound != last; });
      if (!state_.compare_exchange_strong(s, s + kInside, std::memory_order_acq_rel)) continue;
      last = s / kRound;
      if (me < limit_) work(me);
      if (const uint32_t left = state_.fetch_sub(kInside) - kInside; (left & (kRound - 1)) == 0 && callers_.load() != 0)
        wake_all(state_);
    }
  }

  void work(int me) {
    inside = me;
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < n_;) {
      try {
        (*f_)(i, me);
      } catch (...) {
        if (!failed_.exchange(true)) error_ = std::current_exception();
        next_.store(n_, std::memory_order_relaxed);
      }
    }
    inside = -1;
  }

  alignas(64) Word state_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) Word sleepers_{0};  // threads that sleep until a loop opens
  Word callers_{0};               // 1 while the caller sleeps until all threads have left
  std::atomic<bool> failed_{false};
  // The current loop; written before it opens.
  const std::function<void(int64_t, int)>* f_ = nullptr;
  int64_t n_ = 0;
  int limit_ = 0;
  std::exception_ptr error_;
  std::mutex busy_;
  int started_ = 1;  // threads in the pool, the caller included
};

int initial_threads() {
  if (const char* s = std::getenv("OMP_NUM_THREADS"))
    if (int n = std::atoi(s); n > 0) return n;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1u, std::thread::hardware_concurrency());
}

std::atomic<int>& threads() {
  static std::atomic<int> n{initial_threads()};
  return n;
}

}  // namespace

void parallel_for_threads(int64_t n, const std::function<void(int64_t, int)>& f) {
  if (n <= 0) return;
  const int count = static_cast<int>(std::min<int64_t>(thread_count(), n));
  if (inside < 0 && count > 1) return Pool::one().run(n, count, f);
  for (int64_t i = 0; i < n; ++i) f(i, std::max(inside, 0));
}

void parallel_for(int64_t n, const std::function<void(int64_t)>& f) {
  parallel_for_threads(n, [&](int64_t i, int) { f(i); });
}

int thread_count() { return threads().load(std::memory_order_relaxed); }
void set_thread_count(int n) { threads() = std::clamp(n, 1, kMaxThreads); }

}  // namespace ravine

// parallel_for over std::thread, for ThreadSanitizer, which cannot see into libgomp. Threads live for one call.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/parallel.h"

namespace ravine {
namespace {
int initial_threads() {
  if (const char* s = std::getenv("OMP_NUM_THREADS"))
    if (int n = std::atoi(s); n > 0) return n;
  return std::max(1u, std::thread::hardware_concurrency());
}
std::atomic<int> threads{initial_threads()};
thread_local int inside = -1;  // number of this thread inside a parallel_for, else -1
}  // namespace

void parallel_for_threads(int64_t n, const std::function<void(int64_t, int)>& f) {
  if (n <= 0) return;
  int count = static_cast<int>(std::min<int64_t>(threads, n));
  if (inside >= 0 || count == 1) {
    for (int64_t i = 0; i < n; ++i) f(i, std::max(inside, 0));
    return;
  }
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  auto work = [&](int me) {
    inside = me;
    for (int64_t i; (i = next.fetch_add(1)) < n;) {
      try {
        f(i, me);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = n;
      }
    }
    inside = -1;
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < count; ++t) pool.emplace_back(work, t);
  work(0);
  for (auto& t : pool) t.join();
  if (error) std::rethrow_exception(error);
}

void parallel_for(int64_t n, const std::function<void(int64_t)>& f) {
  parallel_for_threads(n, [&](int64_t i, int) { f(i); });
}

int thread_count() { return threads; }
void set_thread_count(int n) { threads = std::max(1, n); }

}  // namespace ravine

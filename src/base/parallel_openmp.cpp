// parallel_for over OpenMP.
#include <omp.h>

#include <atomic>
#include <exception>

#include "base/parallel.h"

namespace ravine {

void parallel_for_threads(int64_t n, const std::function<void(int64_t, int)>& f) {
  if (n <= 0) return;
  if (n == 1 || omp_in_parallel() || omp_get_max_threads() == 1) {
    int thread = omp_in_parallel() ? omp_get_thread_num() : 0;
    for (int64_t i = 0; i < n; ++i) f(i, thread);
    return;
  }
  std::exception_ptr error;
  std::atomic<bool> failed{false};
#pragma omp parallel
  {
    int thread = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1) nowait
    for (int64_t i = 0; i < n; ++i) {
      if (failed.load(std::memory_order_relaxed)) continue;
      try {
        f(i, thread);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

void parallel_for(int64_t n, const std::function<void(int64_t)>& f) {
  parallel_for_threads(n, [&](int64_t i, int) { f(i); });
}

int thread_count() { return omp_get_max_threads(); }
void set_thread_count(int n) { omp_set_num_threads(n < 1 ? 1 : n); }

}  // namespace ravine

// Parallel loops; all computing threads come from here. Loader, writer and heartbeat threads are started elsewhere. A
// chunk's result must depend on shapes only, never on the number of threads. Results are then the same for any number.
#pragma once
#include <cstdint>
#include <functional>

namespace ravine {

// Calls f(i) once for each i in [0, n), on up to thread_count() threads, and returns when all calls have ended. Threads
// take the indices dynamically. After an exception no further index starts; the first exception is rethrown here when
// the running calls have ended. A call from inside f, or while another thread of the program runs a parallel loop, runs
// serially.
void parallel_for(int64_t n, const std::function<void(int64_t i)>& f);

// Like parallel_for, but f also gets the number of its thread (0 .. thread_count()-1), e.g. to select scratch memory.
void parallel_for_threads(int64_t n, const std::function<void(int64_t i, int thread)>& f);

int thread_count();  // most threads of a parallel_for; initially OMP_NUM_THREADS, or the cores of this process
inline constexpr int kMaxThreads = 4096;
void set_thread_count(int n);  // sets thread_count() of the whole process; clamped to 1 .. kMaxThreads

}  // namespace ravine

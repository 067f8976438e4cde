// The one door to threads for compute. What a chunk computes may depend on shapes only, never on the number of threads;
// then results do not either. Loader, writer and heartbeat threads do not enter here.
#pragma once
#include <cstdint>
#include <functional>

namespace ravine {

// Calls f(i) once for each i in [0, n), on up to thread_count() threads, and returns when all are done. The first exception is
// thrown here after the others have ended, and chunks not yet begun are left out. Called inside a chunk, or while another
// thread of the program is in a loop, it runs serially. Chunks are handed out dynamically.
void parallel_for(int64_t n, const std::function<void(int64_t i)>& f);

// As above, with the number (0 .. thread_count()-1) of the thread that runs the chunk, to pick scratch memory by.
void parallel_for_threads(int64_t n, const std::function<void(int64_t i, int thread)>& f);

int thread_count();  // threads that parallel_for may use; starts at OMP_NUM_THREADS or the cores of this process
inline constexpr int kMaxThreads = 4096;
void set_thread_count(int n);  // for the whole process; 1 .. kMaxThreads

}  // namespace ravine

// The thread pool of parallel_for: every index runs once, thread numbers select scratch memory, exceptions, nesting,
// several callers, changing thread counts, and waiting threads sleep.
#include "base/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ravine {
namespace test_parallel {

// Long enough for the other threads to come in.
void work_a_while() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(30);
  while (std::chrono::steady_clock::now() < end) {
  }
}

class Parallel : public testing::Test {
 protected:
  void TearDown() override { set_thread_count(before_); }
  int before_ = thread_count();
};

TEST_F(Parallel, EveryIndexRunsOnce) {
  for (int threads : {1, 2, 3, 5, 2}) {
    set_thread_count(threads);
    for (int64_t n : {0, 1, 2, 3, 7, 64, 1000}) {
      for (int again = 0; again < 50; ++again) {
        std::vector<int> seen(static_cast<size_t>(n), 0);  // not atomic: each index has one writer, read after the end
        parallel_for(n, [&](int64_t i) {
          if (i < 7) work_a_while();
          seen[static_cast<size_t>(i)]++;
        });
        ASSERT_EQ(std::accumulate(seen.begin(), seen.end(), int64_t{0}), n) << threads << " threads, n " << n;
        for (int s : seen) ASSERT_EQ(s, 1);
      }
    }
  }
}

TEST_F(Parallel, TwoChunksNeverShareAThreadNumber) {
  for (int threads : {2, 4, 3}) {
    set_thread_count(threads);
    std::vector<std::atomic<int>> inside(static_cast<size_t>(threads));
    std::atomic<bool> clash{false}, outside{false};
    for (int again = 0; again < 200; ++again)
      parallel_for_threads(32, [&](int64_t, int thread) {
        if (thread < 0 || thread >= threads) return outside.store(true);
        if (inside[static_cast<size_t>(thread)]++ != 0) clash = true;
        work_a_while();
        inside[static_cast<size_t>(thread)]--;
      });
    EXPECT_FALSE(clash);
    EXPECT_FALSE(outside);
  }
}

TEST_F(Parallel, TheFirstExceptionComesOutAndTheNextLoopWorks) {
  for (int threads : {1, 3}) {
    set_thread_count(threads);
    for (int again = 0; again < 100; ++again) {
      std::atomic<int> running{0};
      EXPECT_THROW(parallel_for(100,
                                [&](int64_t i) {
                                  ++running;
                                  if (i % 7 == 3) --running, throw std::runtime_error("chunk");
                                  --running;
                                }),
                   std::runtime_error);
      EXPECT_EQ(running, 0);  // all have ended before it is thrown
      std::atomic<int64_t> sum{0};
      parallel_for(100, [&](int64_t i) { sum += i; });
      ASSERT_EQ(sum, 4950);
    }
  }
}

TEST_F(Parallel, NestedLoopsRunOnTheirThread) {
  set_thread_count(3);
  std::atomic<int64_t> count{0};
  std::atomic<bool> moved{false};
  parallel_for_threads(12, [&](int64_t, int outer) {
    const auto me = std::this_thread::get_id();
    parallel_for_threads(10, [&](int64_t, int inner) {
      if (inner != outer || std::this_thread::get_id() != me) moved = true;
      ++count;
    });
  });
  EXPECT_EQ(count, 120);
  EXPECT_FALSE(moved);
}

TEST_F(Parallel, SeveralCallersAtOnce) {
  set_thread_count(2);
  std::atomic<int64_t> sum{0};
  auto call = [&] {
    for (int again = 0; again < 500; ++again) parallel_for(10, [&](int64_t i) { sum += i; });
  };
  std::thread a(call), b(call);
  call();
  a.join(), b.join();
  EXPECT_EQ(sum, 3 * 500 * 45);
}

double cpu_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  auto of = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return of(u.ru_utime) + of(u.ru_stime);
}

// Loops with pauses between them wake the threads each time; while nothing is to do, no processor time is used.
TEST_F(Parallel, WaitingThreadsSleep) {
  set_thread_count(4);
  std::atomic<int64_t> sum{0};
  const double began = cpu_seconds();
  for (int again = 0; again < 20; ++again) {
    parallel_for(8, [&](int64_t i) { sum += i; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(sum, 20 * 28);
  // Spinning would use 3 x 0.4 s on free cores, and at least one core's 0.4 s on one.
  EXPECT_LT(cpu_seconds() - began, 0.2);
}

}  // namespace test_parallel
}  // namespace ravine

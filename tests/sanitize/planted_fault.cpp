// Faults that the sanitizers must find. scripts/test runs each fault and requires the report. `race` is a race in
// Ravine's thread pool.
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "base/parallel.h"

int main(int count, char** words) {
  const std::string_view fault = count > 1 ? words[1] : "";
  volatile int one = count - 1;
  if (fault == "race") {
    int64_t sum = 0;
    ravine::parallel_for(1000000, [&](int64_t i) { sum += i; });
    std::printf("%lld\n", static_cast<long long>(sum));
  } else if (fault == "overflow") {
    char* memory = static_cast<char*>(std::malloc(16));
    memory[15 + one] = 1;
    std::free(memory);
  } else if (fault == "leak") {
    static_cast<char volatile*>(std::malloc(16))[0] = 1;
  } else if (fault == "undefined") {
    std::printf("%d\n", std::numeric_limits<int>::max() + one);
  }
  return 0;
}

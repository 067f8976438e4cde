#include "apps/stack.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace ravine {

void prepare_stacks() {
  constexpr size_t kStack = size_t{8} << 20, kLeast = size_t{1} << 20;
  pthread_attr_t threads;
  size_t size = 0;
  if (::pthread_getattr_default_np(&threads) == 0) {
    if (::pthread_attr_getstacksize(&threads, &size) == 0 && size < kStack &&
        ::pthread_attr_setstacksize(&threads, kStack) == 0)
      ::pthread_setattr_default_np(&threads);
    ::pthread_attr_destroy(&threads);
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kStack) return;
  const rlimit had = limit;
  limit.rlim_cur = std::min<rlim_t>(kStack, limit.rlim_max);  // the stack of this thread grows up to it
  if (had.rlim_max < kStack) {
    const rlimit both{kStack, kStack};
    if (::setrlimit(RLIMIT_STACK, &both) == 0) return;
  }
  if (::setrlimit(RLIMIT_STACK, &limit) != 0) limit = had;
  if (limit.rlim_cur < kLeast)
    throw UserError("the stack is too small", fmt::format("ulimit -s, {}", human_bytes(static_cast<double>(limit.rlim_cur))),
                    fmt::format("it must have {} at least", human_bytes(static_cast<double>(kLeast))),
                    "raise the limit: ulimit -s 8192");
}

}  // namespace ravine

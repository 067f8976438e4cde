#include "base/log_once.h"

#include <mutex>
#include <set>

#include "base/log.h"

namespace ravine {

void log_once(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> logged;
  const std::lock_guard lock(mutex);
  if (logged.insert(line).second) print_stderr(line);
}

}  // namespace ravine

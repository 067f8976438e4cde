#include "base/said_once.h"

#include <mutex>
#include <set>

#include "base/log.h"

namespace ravine {

void say_once(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(line).second) say(line);
}

}  // namespace ravine

#include "base/program_name.h"

#include <cerrno>

#include "base/shell_word.h"

namespace ravine {

std::string program_word() {
  const std::string called = program_invocation_name;
  return called.find('/') == std::string::npos ? "ravine" : shell_word(called);
}

}  // namespace ravine

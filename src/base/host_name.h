// The name of this machine.
#pragma once
#include <unistd.h>

#include <array>
#include <string>

namespace ravine {

// Returns the host name; "unknown" if the system does not report it.
inline std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace ravine

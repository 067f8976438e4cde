// Choices of section probe.
#pragma once
#include "config/choice.h"

namespace ravine {

// The content of a dump per tensor. Each value includes the previous ones.
enum class DumpWhat : uint8_t { checksum, statistics, tensors };
constexpr auto names_of(DumpWhat) {
  using enum DumpWhat;
  return std::to_array<ValueName<DumpWhat>>({{checksum, "checksum"}, {statistics, "statistics"}, {tensors, "tensors"}});
}

enum class DumpSides : uint8_t { both, input, output };
constexpr auto names_of(DumpSides) {
  using enum DumpSides;
  return std::to_array<ValueName<DumpSides>>({{both, "both"}, {input, "input"}, {output, "output"}});
}

enum class DumpOn : uint8_t { always, overflow, nan };
constexpr auto names_of(DumpOn) {
  using enum DumpOn;
  return std::to_array<ValueName<DumpOn>>({{always, "always"}, {overflow, "overflow"}, {nan, "nan"}});
}

}  // namespace ravine

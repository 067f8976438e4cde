// The value of an option, converted to a narrower integer type.
#pragma once
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace ravine {

// Returns `value` as To. A value out of the range of To is a UserError that names the option.
template <class To>
To narrow_option(int64_t value, const char* option) {
  constexpr int64_t least = std::numeric_limits<To>::is_signed ? static_cast<int64_t>(std::numeric_limits<To>::min()) : 0;
  constexpr int64_t most = sizeof(To) >= sizeof(int64_t) ? INT64_MAX : static_cast<int64_t>(std::numeric_limits<To>::max());
  if (value < least || value > most)
    throw UserError(fmt::format("{} is {}", option, value), option,
                    fmt::format("must be at least {} and at most {}", least, most),
                    value < least ? "give a larger value" : "give a smaller value");
  return static_cast<To>(value);
}

}  // namespace ravine

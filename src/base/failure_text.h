// The message of a stored exception.
#pragma once
#include <exception>
#include <new>
#include <string>

namespace ravine {

// Returns the message of `failure`; "" if it is null. `std::bad_alloc` is reported as missing memory.
inline std::string failure_text(const std::exception_ptr& failure) {
  if (!failure) return "";
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    return "the machine has no more memory";
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace ravine

// Errors are exceptions that say what, where, rule and fix. Nothing aborts the process.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace ravine {

// A broken contract between rooms or an operation of the system that failed (exit status 1).
// Text: "<op>: <rule>, got <what was received>".
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The user's input is wrong: usage, config, data, file (exit status 2). Printed as
// "error: <what> (<where>): <rule>; <fix>"; `where` names the file and the key or tensor.
struct UserError : Error {
  UserError(const std::string& what, const std::string& where, const std::string& rule, const std::string& fix)
      : Error(fmt::format("{} ({}): {}; {}", what, where, rule, fix)) {}
};

// The run ended early because it was asked to, after saving (exit status 130). Printed as it is.
struct Stopped : Error {
  using Error::Error;
};

template <class... A>
[[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) {
  throw Error(fmt::format(text, std::forward<A>(args)...));
}

template <class... A>
void require(bool condition, fmt::format_string<A...> text, A&&... args) {
  if (!condition) [[unlikely]]
    throw Error(fmt::format(text, std::forward<A>(args)...));
}

}  // namespace ravine

// Errors are exceptions that say what, where, rule and fix. Nothing aborts the process.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace ravine {

// The text of an error ends at its first NUL byte, which a name from a file may hold: shown as \x00.
std::string with_shown_nul(std::string text);

// A broken contract between rooms or an operation of the system that failed (exit status 1).
// Text: "<op>: <rule>, got <what was received>".
struct Error : std::runtime_error {
  explicit Error(const std::string& text) : std::runtime_error(with_shown_nul(text)) {}
};

// The user's input is wrong: usage, config, data, file (exit status 2). Printed as
// "error: <what> (<where>): <rule>; <fix>"; `where` names the file and the key or tensor.
struct UserError : Error {
  UserError(const std::string& what, const std::string& where, const std::string& rule, const std::string& fix)
      : Error(fmt::format("{} ({}): {}; {}", what, where, rule, fix)) {}
  explicit UserError(const std::string& text) : Error(text) {}  // of another one, with more to it
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

// The exceptions of Ravine. A message says what is wrong, where, the rule and the fix. Nothing aborts the process.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace ravine {

// Returns the text with each NUL byte written as \x00. A name from a file may have one, and `what()` would end there.
std::string with_shown_nul(std::string text);

// A broken contract between rooms, or a failed operation of the system (exit status 1). The text is
// "<op>: <rule>, got <what was received>".
struct Error : std::runtime_error {
  explicit Error(const std::string& text) : std::runtime_error(with_shown_nul(text)) {}
};

// An error in the user's input: usage, config, data or file (exit status 2). Printed as
// "error: <what> (<where>): <rule>; <fix>"; `where` names the file and the key or tensor.
struct UserError : Error {
  UserError(const std::string& what, const std::string& where, const std::string& rule, const std::string& fix)
      : Error(fmt::format("{} ({}): {}; {}", what, where, rule, fix)) {}
  // Takes the whole message, e.g. the text of another UserError with an addition.
  explicit UserError(const std::string& text) : Error(text) {}
};

// The run ended early on request, after it saved its work (exit status 130). The text is printed without "error:".
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

// The handful of programs whose answer a launch script commonly puts into a word, by $( ): answered here, never run.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace ravine {

// Returns the text that the command writes, line end included; nothing if it is none of those known here: date, dirname, basename, hostname, nproc,
// pwd, echo, printf, cat, whoami, id, realpath, readlink -f, uname, expr, seq; and of its input cut, tr, wc, head, tail. `folder`:
// where it runs; `input`: what a pipe or < gives it.
std::optional<std::string> answer_of(const std::vector<std::string>& words, const std::string& folder,
                                     const std::string& input);

}  // namespace ravine

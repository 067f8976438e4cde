// Computes the output of programs that launch scripts often use in $( ), without running them.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace ravine {

// Computes the output of a command in a launch script, without running it. Returns the output with its line end;
// nothing if the command is not known. Known are date, dirname, basename, hostname, nproc, pwd, echo, printf, cat,
// whoami, id, realpath, readlink -f, uname, expr and seq. Of programs that read an input cut, tr, wc, head and tail are
// known. `folder`: the working folder; `input`: the text of a pipe or <.
std::optional<std::string> answer_of(const std::vector<std::string>& words, const std::string& folder,
                                     const std::string& input);

}  // namespace ravine

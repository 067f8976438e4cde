// A file beside what is built, byte by byte.
#pragma once
#include <string>

namespace ravine {

// `to` is new or emptied, and gets the rights of a new file. Errors as write_all: no room and limits are named as what they
// are.
void copy_plain_file(const std::string& from, const std::string& to);

}  // namespace ravine

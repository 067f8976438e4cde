// Copies of files.
#pragma once
#include <string>

namespace ravine {

// Copies a regular file byte by byte. `to` is created or emptied, with the permissions of a new file. Errors as in
// write_all, e.g. DiskFull.
void copy_plain_file(const std::string& from, const std::string& to);

}  // namespace ravine

// Any bytes as a zip archive: refused with a UserError, or every member lies inside the file and none overlap.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "files/zip.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto members = parse_zip(std::as_bytes(std::span(data, size)), "input");
    std::sort(members.begin(), members.end(), [](const ZipMember& a, const ZipMember& b) { return a.begin < b.begin; });
    int64_t at = 0;
    for (const ZipMember& m : members) {
      if (m.begin < at || m.size < 0 || m.begin + m.size > static_cast<int64_t>(size)) std::abort();
      at = m.begin + m.size;
    }
  } catch (const UserError&) {
  }
  return 0;
}

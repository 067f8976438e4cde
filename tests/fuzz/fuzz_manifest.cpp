// Any text as the manifest of a checkpoint gives a UserError, or a manifest that is covered and that is equal after
// writing and reading.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "io/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  // As it comes, and with the checksum that fits, so that what lies behind it is reached.
  std::string text(reinterpret_cast<const char*>(data), size);
  for (const std::string& sealed : {text, "{\"checksum\":\"0000000000000000\"," + text}) {
    try {
      const bool seal = sealed.size() != text.size();
      const Manifest m = parse_manifest(seal ? seal_manifest(sealed) : sealed, "fuzz");
      if (!manifest_fault(m).empty()) std::abort();
      const std::string written = write_manifest(m);
      if (write_manifest(parse_manifest(written, "written")) != written) std::abort();
    } catch (const UserError&) {
    }
  }
  return 0;
}

// A .idx file with a .bin of 64 bytes: numbers inside both files or a UserError, nothing else.
#include <vector>

#include "base/error.h"
#include "data/indexed/indexed_file.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Scratch scratch;
  static const std::string prefix = scratch.folder() + "/a";
  scratch.write("a.bin", std::string(64, '\1'));
  scratch.write("a.idx", text_of(data, size));
  try {
    const ravine::IndexedFile file(prefix);
    auto visit = [&] {
      for (int64_t d = 0; d <= file.documents() && d < 100; ++d) file.document_begin(d);
      for (int64_t s = 0; s < file.sequences() && s < 100; ++s) {
        file.mode(s);
        const int64_t n = file.length(s);
        if (static_cast<size_t>(n) * static_cast<size_t>(size_of(file.type())) != file.bytes(s).size()) __builtin_trap();
        std::vector<int32_t> ids(static_cast<size_t>(n));
        file.copy(s, 0, ids);
      }
    };
    try {
      visit();
    } catch (const ravine::UserError&) {
    }
    file.check();
  } catch (const ravine::UserError&) {
  }
  return 0;
}

// Any bytes as a compressed file. The first byte chooses the format; the rest is read as a whole and line by line,
// within a limit. Either both readers refuse the file, or both return the same text.
#include "files/compressed.h"

#include "base/error.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  static const Scratch scratch;
  if (size < 1) return 0;
  constexpr const char* kNames[] = {"in.gz", "in.zst", "in.xz", "in.txt"};
  const std::string path = scratch.write(kNames[data[0] % 4], text_of(data + 1, size - 1));
  constexpr int64_t kLimit = 1 << 20;
  std::string whole, lines;
  bool refused = false;
  try {
    whole = read_whole(path, kLimit);
  } catch (const UserError&) {
    refused = true;
  }
  try {
    LineReader reader(path, kLimit);
    while (auto line = reader.next()) {
      lines += *line;
      lines += '\n';
      if (static_cast<int64_t>(lines.size()) > 2 * kLimit) return 0;  // a small file that unfolds without end
    }
    if (refused && static_cast<int64_t>(lines.size()) <= kLimit) std::abort();
  } catch (const UserError&) {
    if (!refused) std::abort();
  }
  if (!refused && !whole.empty() && whole.back() != '\n') whole += '\n';
  if (!refused && lines != whole) std::abort();
  return 0;
}

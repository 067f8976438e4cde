#include "files/copy_file.h"

#include <vector>

#include "files/fd.h"

namespace ravine {

void copy_plain_file(const std::string& from, const std::string& to) {
  int64_t size = 0;
  const Fd in = open_to_read(from, &size);
  const Fd out = create_file(to);
  std::vector<std::byte> piece(size_t{1} << 20);
  while (const size_t n = read_some(*in, piece, from)) write_all(*out, {piece.data(), n}, to);
}

}  // namespace ravine

#include "io/two_tables.h"

#include <fmt/format.h>

#include <span>

#include "files/compare.h"

namespace ravine {

bool same_values(const TensorFile& a_file, const TensorInfo& a, const TensorFile& b_file, const TensorInfo& b) {
  if (!(a.shape == b.shape)) return false;
  const std::span<const std::byte> left = a_file.bytes(a), right = b_file.bytes(b);
  if (a.dtype == b.dtype && left.data() == right.data()) return true;  // one storage under two names
  return compare(a.dtype, left, b.dtype, right).differing == 0;
}

std::string two_tables_text(const std::string& where) {
  return fmt::format(
      "{}: tie_word_embeddings ties the head to the embedding, and the files hold two tables of other values: the head is that "
      "of the files (set tie_word_embeddings to false, or remove the stored head)",
      where);
}

}  // namespace ravine

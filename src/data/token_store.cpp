#include "data/token_store.h"

#include <algorithm>

#include "base/error.h"

namespace ravine {

void TokenStore::append(std::span<const int32_t> document) {
  require(!document.empty(), "token store: a document has at least one token");
  if (narrow_)
    narrow_ids_.insert(narrow_ids_.end(), document.begin(), document.end());
  else
    ids_.insert(ids_.end(), document.begin(), document.end());
  ends_.push_back(tokens() + static_cast<int64_t>(document.size()));
}

int64_t TokenStore::document_at(int64_t token) const {
  require(token >= 0 && token < tokens(), "token store: token is 0 to {}, got {}", tokens() - 1, token);
  return std::upper_bound(ends_.begin(), ends_.end(), token) - ends_.begin();
}

void TokenStore::copy(int64_t begin, std::span<int32_t> into) const {
  auto n = static_cast<int64_t>(into.size());
  require(begin >= 0 && begin + n <= tokens(), "token store: tokens {} to {} of {}", begin, begin + n, tokens());
  if (narrow_)
    std::copy_n(narrow_ids_.begin() + begin, n, into.begin());
  else
    std::copy_n(ids_.begin() + begin, n, into.begin());
}

std::string TokenStore::name_of(int64_t document) const {
  auto it = std::upper_bound(files_.begin(), files_.end(), document, [](int64_t d, const File& f) { return d < f.first; });
  if (it == files_.begin()) return fmt::format("document {}", document + 1);
  --it;
  return fmt::format("{} document {}", it->path, document - it->first + 1);
}

std::string TokenStore::origin(int64_t begin, int64_t end) const {
  int64_t first = document_at(begin), last = document_at(std::max(begin, end - 1));
  return first == last ? name_of(first) : name_of(first) + " to " + name_of(last);
}

}  // namespace ravine

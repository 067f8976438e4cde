#include "data/token_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "device/device.h"

namespace ravine {

size_t held_capacity(size_t have, size_t more, size_t width, const std::string& where) {
  constexpr size_t kSmall = size_t{64} << 20;  // below this number of bytes the free memory is not checked
  const size_t least = have + more, wanted = std::max(2 * have, least);
  if (wanted * width <= kSmall) return wanted;
  const auto free = static_cast<size_t>(std::max<int64_t>(available_memory(), 0));
  if (wanted * width <= free) return wanted;
  if (const size_t tight = least + least / 8; tight * width <= free) return tight;
  throw UserError(
      "too much data for the memory", where,
      fmt::format(
          "its tokens are held in memory: {:.2f} GiB so far, to grow that takes {:.2f} GiB more, and {:.2f} GiB are free",
          static_cast<double>(have * width) / (1 << 30), static_cast<double>(least * width) / (1 << 30),
          static_cast<double>(free) / (1 << 30)),
      "make token files with ravine preprocess, which are read from disk, or give less text");
}

void TokenStore::append(std::span<const int32_t> document) {
  require(!document.empty(), "token store: a document has at least one token");
  narrow_ ? grow_held(narrow_ids_, document.size(), last_file()) : grow_held(ids_, document.size(), last_file());
  grow_held(ends_, 1, last_file());
  if (narrow_)
    narrow_ids_.insert(narrow_ids_.end(), document.begin(), document.end());
  else
    ids_.insert(ids_.end(), document.begin(), document.end());
  ends_.push_back(tokens() + static_cast<int64_t>(document.size()));
}

std::span<const std::byte> TokenStore::id_bytes() const {
  return narrow_ ? std::as_bytes(std::span(narrow_ids_)) : std::as_bytes(std::span(ids_));
}

std::vector<int64_t> TokenStore::file_starts() const {
  std::vector<int64_t> starts;
  for (const File& f : files_) starts.push_back(f.first);
  return starts;
}

bool TokenStore::restore(std::span<const std::byte> ids, std::span<const std::byte> ends, std::span<const std::byte> starts,
                         const std::vector<std::string>& paths) {
  require(ends_.empty() && files_.empty(), "token store: only an empty one can be restored");
  size_t width = narrow_ ? sizeof(uint16_t) : sizeof(int32_t);
  if (ids.size() % width != 0 || ends.size() % 8 != 0 || starts.size() != 8 * paths.size()) return false;
  auto fill = [](auto& into, std::span<const std::byte> from) {
    into.resize(from.size() / sizeof(into[0]));
    if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
  };
  narrow_ ? fill(narrow_ids_, ids) : fill(ids_, ids);
  fill(ends_, ends);
  std::vector<int64_t> first;
  fill(first, starts);
  int64_t last = 0;
  for (int64_t e : ends_)
    if (std::exchange(last, e) >= e) return false;
  if (last != static_cast<int64_t>(ids.size() / width)) return false;
  last = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (std::exchange(last, first[i]) > first[i] || first[i] < 0 || first[i] > documents()) return false;
    files_.push_back({paths[i], first[i]});
  }
  return true;
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

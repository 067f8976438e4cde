#include "text/tokenizers/vocabulary.h"

#include <algorithm>
#include <random>

namespace ravine {

uint64_t hash_secret() {
  static const uint64_t secret = [] {
    std::random_device device;
    return (uint64_t{device()} << 32 | device()) | 1;
  }();
  return secret;
}

void Vocabulary::grow() {
  std::vector<int32_t> slots(slots_.size() * 2, -1);
  size_t mask = slots.size() - 1;
  for (size_t k = 0; k < entries_.size(); ++k) {
    std::string_view s = view(entries_[k]);
    size_t i = hash_bytes(s.data(), s.size(), secret_) & mask;
    while (slots[i] >= 0) i = (i + 1) & mask;
    slots[i] = static_cast<int32_t>(k);
  }
  slots_ = std::move(slots);
}

void Vocabulary::add(std::string_view text, int32_t id) {
  size_t mask = slots_.size() - 1;
  size_t i = hash_bytes(text.data(), text.size(), secret_) & mask;
  for (; slots_[i] >= 0; i = (i + 1) & mask) {
    Entry& e = entries_[static_cast<size_t>(slots_[i])];
    if (view(e) == text) {
      e.id = id;
      return;
    }
  }
  slots_[i] = static_cast<int32_t>(entries_.size());
  entries_.push_back({bytes_.size(), static_cast<uint32_t>(text.size()), id});
  bytes_ += text;
  if (entries_.size() * 2 > slots_.size()) grow();
}

void Vocabulary::freeze() {
  int32_t end = 0;
  for (const auto& e : entries_) end = std::max(end, e.id + 1);
  by_id_.assign(static_cast<size_t>(end), -1);
  for (size_t k = 0; k < entries_.size(); ++k) by_id_[static_cast<size_t>(entries_[k].id)] = static_cast<int32_t>(k);
}

}  // namespace ravine

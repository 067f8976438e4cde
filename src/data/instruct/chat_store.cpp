#include "data/instruct/chat_store.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace ravine {

void ChatStore::append(const EncodedChat& chat, int64_t record) {
  require(chat.ids.size() >= 2 && chat.ids.size() == chat.learned.size(), "chat store: {} ids, {} marks", chat.ids.size(),
          chat.learned.size());
  tokens_.append(chat.ids);
  grow_held(learned_, chat.learned.size(), files_.empty() ? "data" : files_.back().first);
  learned_.insert(learned_.end(), chat.learned.begin(), chat.learned.end());
  records_.push_back(record);
}

EncodedChat ChatStore::chat(int64_t i) const {
  auto n = static_cast<size_t>(length(i));
  int64_t begin = tokens_.begin_of(i);
  EncodedChat c{std::vector<int32_t>(n), {learned_.begin() + begin, learned_.begin() + begin + static_cast<int64_t>(n)}};
  tokens_.copy(begin, c.ids);
  return c;
}

std::string ChatStore::origin(int64_t i) const {
  auto file = std::upper_bound(files_.begin(), files_.end(), i, [](int64_t n, const auto& f) { return n < f.second; });
  int64_t record = records_[static_cast<size_t>(i)];
  return file == files_.begin() ? fmt::format("record {}", record) : fmt::format("{} record {}", (file - 1)->first, record);
}

std::vector<int64_t> ChatStore::file_offsets(const std::vector<std::string>& paths) const {
  std::vector<int64_t> out;
  auto at = paths.begin();
  for (const auto& [path, first] : files_) {
    at = std::find(at, paths.end(), path);
    require(at != paths.end(), "chat store: '{}' is not among the files", path);
    out.push_back(at++ - paths.begin());
    out.push_back(first);
  }
  return out;
}

ChatStore::Bytes ChatStore::bytes(const std::vector<int64_t>& offsets) const {
  return {tokens_.id_bytes(), std::as_bytes(std::span(tokens_.ends())), std::as_bytes(std::span(learned_)),
          std::as_bytes(std::span(records_)), std::as_bytes(std::span(offsets))};
}

bool ChatStore::restore(const Bytes& b, const std::vector<std::string>& paths) {
  if (!tokens_.restore(b.ids, b.ends, {}, {}) || b.learned.size() != static_cast<size_t>(tokens_.tokens()) ||
      b.records.size() != 8 * static_cast<size_t>(count()) || b.files.size() % 16 != 0)
    return false;
  auto fill = [](auto& into, std::span<const std::byte> from) {
    into.resize(from.size() / sizeof(into[0]));
    if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
  };
  fill(learned_, b.learned);
  fill(records_, b.records);
  std::vector<int64_t> offsets;
  fill(offsets, b.files);
  for (int64_t i = 0; i < count(); ++i)
    if (length(i) < 2) return false;
  for (size_t i = 0; i < offsets.size(); i += 2) {
    const int64_t path = offsets[i], first = offsets[i + 1];
    if (path < 0 || path >= static_cast<int64_t>(paths.size()) || first < (files_.empty() ? 0 : files_.back().second) ||
        first > count())
      return false;
    files_.emplace_back(paths[static_cast<size_t>(path)], first);
  }
  return true;
}

void ChatStore::split(const std::vector<uint64_t>& hashes, uint64_t threshold, ChatStore& below, ChatStore& others) const {
  size_t file = 0;
  for (int64_t i = 0; i < count(); ++i) {
    for (; file < files_.size() && files_[file].second <= i; ++file)
      for (ChatStore* s : {&below, &others}) s->begin_file(files_[file].first);
    auto k = static_cast<size_t>(i);
    (hashes[k] < threshold ? below : others).append(chat(i), records_[k]);
  }
}

ChatSamples::ChatSamples(std::shared_ptr<const ChatStore> store, const ChatLayout& layout)
    : store_(std::move(store)), layout_(layout) {
  std::vector<int32_t> columns;
  for (int64_t i = 0; i < store_->count(); ++i) columns.push_back(static_cast<int32_t>(store_->length(i)) - 1);
  spread_ = spread_chats(columns, layout_);
}

void append_chat(Sample& s, const EncodedChat& c) {
  const auto n = static_cast<int32_t>(c.ids.size()) - 1;
  s.segments.push_back({static_cast<int32_t>(s.ids.size()), n});
  for (int32_t t = 0; t < n; ++t) {
    const auto at = static_cast<size_t>(t);
    s.ids.push_back(c.ids[at]);
    s.labels.push_back(c.learned[at + 1] ? c.ids[at + 1] : kIgnored);
    s.positions.push_back(t);
  }
}

Sample ChatSamples::sample(int64_t i) const {
  require(i >= 0 && i < count(), "chat samples: sample is 0 to {}, got {}", count() - 1, i);
  Sample s;
  for (int64_t k : spread_.of(i)) append_chat(s, store_->chat(k));
  pad_sample(s, layout_);
  return s;
}

std::string ChatSamples::origin(int64_t i) const {
  auto chats = spread_.of(i);
  return origin_of_sample(store_->origin(chats[0]), chats.size());
}

}  // namespace ravine

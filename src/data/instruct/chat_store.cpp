#include "data/instruct/chat_store.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"

namespace ravine {

void ChatStore::append(const EncodedChat& chat, int64_t record) {
  require(chat.ids.size() >= 2 && chat.ids.size() == chat.learned.size(), "chat store: {} ids, {} marks", chat.ids.size(), chat.learned.size());
  tokens_.append(chat.ids);
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

void ChatStore::split(const std::vector<uint64_t>& hashes, uint64_t threshold, ChatStore& below, ChatStore& others) const {
  size_t file = 0;
  for (int64_t i = 0; i < count(); ++i) {
    for (; file < files_.size() && files_[file].second <= i; ++file)
      for (ChatStore* s : {&below, &others}) s->begin_file(files_[file].first);
    auto k = static_cast<size_t>(i);
    (hashes[k] < threshold ? below : others).append(chat(i), records_[k]);
  }
}

ChatSamples::ChatSamples(std::shared_ptr<const ChatStore> store, const ChatLayout& layout) : store_(std::move(store)), layout_(layout) {
  const int64_t n = store_->count(), S = layout_.columns;
  for (int64_t i = 0; i < n; ++i)
    require(store_->length(i) - 1 <= S, "chat samples: conversation {} has {} tokens, a sample takes {}", i, store_->length(i), S + 1);
  std::vector<int64_t> sample_of(static_cast<size_t>(n));
  int64_t samples = 0;
  if (layout_.pack) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return store_->length(a) > store_->length(b); });
    std::vector<std::vector<int64_t>> with_room(static_cast<size_t>(S) + 1);  // samples by the columns they have left
    std::set<int64_t> rooms;                                                  // that occur
    for (int64_t i : order) {
      int64_t columns = store_->length(i) - 1, room = S, at = samples;
      if (auto fits = rooms.lower_bound(columns); fits != rooms.end()) {
        room = *fits;
        auto& list = with_room[static_cast<size_t>(room)];
        at = list.back();
        list.pop_back();
        if (list.empty()) rooms.erase(fits);
      } else {
        ++samples;
      }
      sample_of[static_cast<size_t>(i)] = at;
      if (int64_t left = room - columns; left > 0) {
        with_room[static_cast<size_t>(left)].push_back(at);
        rooms.insert(left);
      }
    }
  } else {
    std::iota(sample_of.begin(), sample_of.end(), int64_t{0});
    samples = n;
  }
  begins_.assign(static_cast<size_t>(samples) + 1, 0);
  for (int64_t s : sample_of) ++begins_[static_cast<size_t>(s) + 1];
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  std::vector<int64_t> next = begins_;
  chats_.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) chats_[static_cast<size_t>(next[static_cast<size_t>(sample_of[static_cast<size_t>(i)])]++)] = i;
}

Sample ChatSamples::sample(int64_t i) const {
  require(i >= 0 && i < count(), "chat samples: sample is 0 to {}, got {}", count() - 1, i);
  Sample s;
  for (int64_t k = begins_[static_cast<size_t>(i)]; k < begins_[static_cast<size_t>(i) + 1]; ++k) {
    EncodedChat c = store_->chat(chats_[static_cast<size_t>(k)]);
    auto n = static_cast<int32_t>(c.ids.size()) - 1;
    s.segments.push_back({static_cast<int32_t>(s.ids.size()), n});
    for (int32_t t = 0; t < n; ++t) {
      auto at = static_cast<size_t>(t);
      s.ids.push_back(c.ids[at]);
      s.labels.push_back(c.learned[at + 1] ? c.ids[at + 1] : kIgnored);
      s.positions.push_back(t);
    }
  }
  auto used = s.ids.size(), S = static_cast<size_t>(layout_.columns);
  s.ids.resize(S, layout_.padding);
  s.labels.resize(S, kIgnored);
  s.positions.resize(S);
  std::iota(s.positions.begin() + static_cast<ptrdiff_t>(used), s.positions.end(), static_cast<int32_t>(used));
  return s;
}

std::string ChatSamples::origin(int64_t i) const {
  int64_t begin = begins_[static_cast<size_t>(i)], end = begins_[static_cast<size_t>(i) + 1];
  std::string text = store_->origin(chats_[static_cast<size_t>(begin)]);
  return end - begin == 1 ? text : fmt::format("{} and {} more", text, end - begin - 1);
}

}  // namespace ravine

#include "data/instruct/sample_layout.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"

namespace ravine {

ChatSpread spread_chats(std::span<const int32_t> lengths, const ChatLayout& layout) {
  const auto n = static_cast<int64_t>(lengths.size());
  const int64_t S = layout.columns;
  for (int64_t i = 0; i < n; ++i)
    require(lengths[static_cast<size_t>(i)] <= S, "chat samples: conversation {} takes {} columns, a sample has {}", i,
            lengths[static_cast<size_t>(i)], S);
  std::vector<int64_t> sample_of(static_cast<size_t>(n));
  int64_t samples = n;
  if (layout.pack) {
    samples = 0;
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)]; });
    std::vector<std::vector<int64_t>> with_room(static_cast<size_t>(S) + 1);  // samples by their remaining columns
    // The numbers of remaining columns that occur.
    std::set<int64_t> rooms;
    for (int64_t i : order) {
      int64_t columns = lengths[static_cast<size_t>(i)], room = S, at = samples;
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
  }
  ChatSpread s;
  s.begins.assign(static_cast<size_t>(samples) + 1, 0);
  for (int64_t at : sample_of) ++s.begins[static_cast<size_t>(at) + 1];
  std::partial_sum(s.begins.begin(), s.begins.end(), s.begins.begin());
  std::vector<int64_t> next = s.begins;
  s.chats.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    s.chats[static_cast<size_t>(next[static_cast<size_t>(sample_of[static_cast<size_t>(i)])]++)] = i;
  return s;
}

void pad_sample(Sample& s, const ChatLayout& layout) {
  const auto used = s.ids.size(), S = static_cast<size_t>(layout.columns);
  s.ids.resize(S, layout.padding);
  s.labels.resize(S, kIgnored);
  s.positions.resize(S);
  std::iota(s.positions.begin() + static_cast<ptrdiff_t>(used), s.positions.end(), static_cast<int32_t>(used));
}

std::string origin_of_sample(const std::string& first, size_t conversations) {
  return conversations == 1 ? first : fmt::format("{} and {} more", first, conversations - 1);
}

}  // namespace ravine

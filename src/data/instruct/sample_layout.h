// Which conversations lie side by side in a sample.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/sample.h"

namespace ravine {

struct ChatLayout {
  int64_t columns = 0;  // S of a sample: a conversation of n tokens takes n - 1 of them
  bool pack = true;     // several conversations side by side where they fit
  int32_t padding = 0;  // id of padding columns
};

// Samples of whole conversations, by their numbers.
struct ChatSpread {
  std::vector<int64_t> chats;         // sample after sample
  std::vector<int64_t> begins = {0};  // where each sample's begin in `chats`, and the end
  int64_t samples() const { return static_cast<int64_t>(begins.size()) - 1; }
  std::span<const int64_t> of(int64_t sample) const {
    auto i = static_cast<size_t>(sample);
    return std::span(chats).subspan(static_cast<size_t>(begins[i]), static_cast<size_t>(begins[i + 1] - begins[i]));
  }
};

// lengths: columns that each conversation takes, at most layout.columns. Packing puts each, the longest first, into the fullest
// sample that still has room (best fit decreasing); it depends on the lengths alone. Without packing each has a sample of its
// own.
ChatSpread spread_chats(std::span<const int32_t> lengths, const ChatLayout& layout);

// Fills a sample to layout.columns with padding that is not learned; positions go on.
void pad_sample(Sample& sample, const ChatLayout& layout);
// "FIRST and N more" of a sample of so many conversations.
std::string origin_of_sample(const std::string& first, size_t conversations);

}  // namespace ravine

// Assigns conversations to samples.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/sample.h"

namespace ravine {

// The shape of samples that are made of conversations.
struct ChatLayout {
  int64_t columns = 0;  // number of columns S of a sample; a conversation of n tokens takes n - 1 columns
  bool pack = true;     // several conversations in a sample, if they fit
  int32_t padding = 0;  // id of padding columns
};

// The result of spread_chats(): the conversations in each sample.
struct ChatSpread {
  std::vector<int64_t> chats;         // indices of the conversations, sample after sample
  std::vector<int64_t> begins = {0};  // index in `chats` of each sample's first conversation; then chats.size()
  int64_t samples() const { return static_cast<int64_t>(begins.size()) - 1; }
  std::span<const int64_t> of(int64_t sample) const {
    auto i = static_cast<size_t>(sample);
    return std::span(chats).subspan(static_cast<size_t>(begins[i]), static_cast<size_t>(begins[i + 1] - begins[i]));
  }
};

// Assigns conversations to samples. lengths: the number of columns of each conversation, at most layout.columns. With
// layout.pack, each conversation, the longest first, is put into the fullest sample that has room (best fit
// decreasing); the result depends on the lengths alone. Without it, each conversation has a separate sample.
ChatSpread spread_chats(std::span<const int32_t> lengths, const ChatLayout& layout);

// Pads a sample at its end to layout.columns columns. A padding column has the id layout.padding and an ignored label;
// its positions continue the count.
void pad_sample(Sample& sample, const ChatLayout& layout);
// Returns the origin of a sample for messages: "FIRST and N more" for several conversations, FIRST for one. first: the
// origin of the first conversation. conversations: their number.
std::string origin_of_sample(const std::string& first, size_t conversations);

}  // namespace ravine

// Assigns conversations to samples.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/sample.h"

namespace ravine {

struct ChatLayout {
  int64_t columns = 0;  // number of columns S of a sample; a conversation of n tokens takes n - 1 columns
  bool pack = true;     // several conversations in a sample, if they fit
  int32_t padding = 0;  // id of padding columns
};

// Samples of whole conversations, given by their numbers.
struct ChatSpread {
  std::vector<int64_t> chats;         // sample after sample
  std::vector<int64_t> begins = {0};  // begin of each sample in `chats`, and the end
  int64_t samples() const { return static_cast<int64_t>(begins.size()) - 1; }
  std::span<const int64_t> of(int64_t sample) const {
    auto i = static_cast<size_t>(sample);
    return std::span(chats).subspan(static_cast<size_t>(begins[i]), static_cast<size_t>(begins[i + 1] - begins[i]));
  }
};

// Assigns conversations to samples. lengths: columns of each conversation, at most layout.columns. With packing, each
// conversation, the longest first, is put into the fullest sample that has room (best fit decreasing); the result
// depends on the lengths alone. Without packing, each has a separate sample.
ChatSpread spread_chats(std::span<const int32_t> lengths, const ChatLayout& layout);

// Pads a sample to layout.columns with ignored columns; positions continue.
void pad_sample(Sample& sample, const ChatLayout& layout);
// Returns "FIRST and N more" for a sample of several conversations.
std::string origin_of_sample(const std::string& first, size_t conversations);

}  // namespace ravine

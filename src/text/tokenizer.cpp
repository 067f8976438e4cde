#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

namespace ravine {

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string out;
  auto decoding = start_decoding(skip_special);
  for (int32_t id : ids) decoding->feed(id, out);
  decoding->finish(out);
  return out;
}

std::string StreamDecoder::next(int32_t id) {
  std::string out;
  ids_.push_back(id);
  decoding_->feed(id, out);
  return new_text(std::move(out));
}

std::string StreamDecoder::finish() {
  std::string out;
  decoding_->finish(out);
  return new_text(std::move(out));
}

std::string StreamDecoder::settle() {
  std::string held = tokenizer_->decode(ids_, skip_special_);
  held.erase(0, std::min(held.size(), certain_));
  if (!held.starts_with(settled_)) return "";
  return held.substr(std::exchange(settled_, held).size());
}

// Removes the text that settle() has returned. If the text continues differently (bytes without a character have become
// one), returns the text from the first difference on.
std::string StreamDecoder::new_text(std::string out) {
  certain_ += out.size();
  if (settled_.empty() || out.empty()) return out;
  auto same = static_cast<size_t>(
      std::mismatch(out.begin(), out.begin() + static_cast<ptrdiff_t>(std::min(out.size(), settled_.size())), settled_.begin())
          .first -
      out.begin());
  if (same == out.size() || same == settled_.size()) {
    settled_.erase(0, same);
  } else {
    while (same > 0 && (static_cast<unsigned char>(out[same]) & 0xc0) == 0x80) --same;
    settled_.clear();
  }
  return out.substr(same);
}

}  // namespace ravine

#include "infer/answer_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ravine {
namespace {

// Returns the number of bytes at the end of `text` that are a beginning of `stop`, and not all of `stop`.
size_t begun_at_end(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n)
    if (text.ends_with(stop.substr(0, n))) return n;
  return 0;
}

}  // namespace

AnswerText::AnswerText(const Tokenizer& tokenizer, std::span<const int32_t> prompt, std::vector<std::string> stops)
    : tokenizer_(&tokenizer), decoder_(tokenizer, true), stops_(std::move(stops)) {
  for (const int32_t id : prompt)
    if (id < tokenizer.size()) decoder_.next(id);
  decoder_.settle();
}

std::string AnswerText::next(int32_t id) {
  if (stopped_ || id >= tokenizer_->size()) return "";
  return take(decoder_.next(id), false);
}

std::string AnswerText::finish() { return stopped_ ? "" : take(decoder_.finish(), true); }

std::string AnswerText::take(const std::string& more, bool all) {
  if (stops_.empty()) return more;
  held_ += more;
  size_t end = std::string::npos, kept = 0;
  for (const std::string& stop : stops_) {
    end = std::min(end, held_.find(stop));
    kept = std::max(kept, begun_at_end(held_, stop));
  }
  stopped_ = end != std::string::npos;
  if (!stopped_) end = all ? held_.size() : held_.size() - kept;
  std::string certain = held_.substr(0, end);
  held_.erase(0, end);
  return certain;
}

}  // namespace ravine

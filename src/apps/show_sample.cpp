#include "apps/show_sample.h"

#include <fmt/format.h>

#include "base/text.h"

namespace ravine {

std::string sample_text(const Sample& s, const Tokenizer* tokenizer, Marks marks) {
  auto learned = [&](const TokenSpan& seg, int32_t t) {
    return t > seg.begin && s.labels[static_cast<size_t>(t) - 1] == s.ids[static_cast<size_t>(t)];
  };
  auto shown = [](const std::string& text) { return escaped(text, "\n\t"); };
  bool all = true;
  for (const TokenSpan& seg : s.segments)
    for (int32_t t = seg.begin + 1; t < seg.begin + seg.length; ++t) all = all && learned(seg, t);
  if (all && marks == Marks::brackets) marks = Marks::none;
  const char* begin = marks == Marks::colours ? "\033[32m" : marks == Marks::brackets ? "⟦" : "";
  const char* end = marks == Marks::colours ? "\033[0m" : marks == Marks::brackets ? "⟧" : "";
  std::string out;
  for (size_t k = 0; k < s.segments.size(); ++k) {
    const TokenSpan& seg = s.segments[k];
    if (s.segments.size() > 1)
      out += fmt::format("{}-- {}, columns {} to {}\n", out.empty() || out.back() == '\n' ? "" : "\n",
                         s.pairs.empty() ? fmt::format("segment {}", k + 1)
                                         : fmt::format("pair {}, {}", k / 2 + 1, k % 2 ? "rejected" : "chosen"),
                         seg.begin, seg.begin + seg.length - 1);
    std::optional<StreamDecoder> decoder;
    if (tokenizer) decoder.emplace(*tokenizer, false);
    bool on = false;
    for (int32_t t = seg.begin; t < seg.begin + seg.length; ++t) {
      if (learned(seg, t) != on) {
        if (decoder && t > seg.begin) out += shown(decoder->settle());  // on the side of the mark where it belongs
        out += on ? end : begin;
        on = !on;
      }
      int32_t id = s.ids[static_cast<size_t>(t)];
      out += decoder ? shown(decoder->next(id)) : fmt::format("{}{}", t > seg.begin ? " " : "", id);
    }
    // The last column has no next token in this segment: its prediction is shown at the end.
    size_t last = static_cast<size_t>(seg.begin + seg.length) - 1;
    if (seg.length > 0 && s.labels[last] != kIgnored) {
      if (!on) {
        if (decoder) out += shown(decoder->settle());
        out += begin, on = true;
      }
      out += decoder ? shown(decoder->next(s.labels[last])) : fmt::format(" {}", s.labels[last]);
    }
    if (decoder) out += shown(decoder->finish());
    if (on) out += end;
  }
  return out;
}

}  // namespace ravine

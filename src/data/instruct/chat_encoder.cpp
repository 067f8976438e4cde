#include "data/instruct/chat_encoder.h"

#include <algorithm>

#include "base/error.h"
#include "data/tokenizers/utf8.h"
#include "files/checksum.h"

namespace ravine {

namespace {

size_t common_prefix(std::string_view a, std::string_view b) {
  auto [x, y] = std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  return static_cast<size_t>(x - a.begin());
}

Json first(const Json& messages, size_t n) {
  Json out = Json::array();
  for (size_t i = 0; i < n; ++i) out.push_back(messages[i]);
  return out;
}

}  // namespace

LossOn loss_on(const std::string& name) {
  if (name == "answers") return LossOn::answers;
  if (name == "last") return LossOn::last;
  require(name == "all", "loss_on: answers, last or all, got {}", name);
  return LossOn::all;
}

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, std::unique_ptr<ChatTemplate> chat, LossOn loss)
    : tokenizer_(tokenizer), chat_(std::move(chat)), loss_(loss) {
  // The end token is the first special one behind an answer, with nothing but white space in between.
  const std::string answer = "Ravine";
  Json probe = {{{"role", "user"}, {"content", "Hello"}}, {{"role", "assistant"}, {"content", answer}}};
  std::string text = render(probe, nullptr, false, "a question and its answer");
  asks_ = render(first(probe, 1), nullptr, true, "a question") != render(first(probe, 1), nullptr, false, "a question");
  size_t at = text.rfind(answer);
  if (at == std::string::npos)
    throw UserError("the chat template drops the answer", "a question and its answer", "it must write what the assistant said", "use another template");
  for (int32_t id : tokenizer.encode(std::string_view(text).substr(at + answer.size()), false)) {
    std::span<const int32_t> one(&id, 1);
    std::string seen = tokenizer.decode(one, false);
    if (!seen.empty() && tokenizer.decode(one, true).empty()) {
      end_ = id;
      end_text_ = tokenizer.id_to_piece(id);
      if (text.find(end_text_, at) == std::string::npos) end_text_ = std::string(strip_left(strip_right(seen)));
      break;
    }
    if (!strip_left(seen).empty()) break;
  }
  if (end_ >= 0) return;
  end_text_.clear();
  if (!tokenizer.special().eos)
    throw UserError("no end token", "chat template", "neither the template nor the tokenizer has one, so a model would never stop",
                    "set data.chat_template to one that ends answers with a special token");
  end_ = *tokenizer.special().eos;
  std::string eos = tokenizer.id_to_piece(end_);
  if (text.find(eos, at) != std::string::npos)
    throw UserError(fmt::format("the tokenizer does not know '{}' when it stands in text", eos), "chat template",
                    "a raw SentencePiece file has no special strings", "name the tokenizer's folder instead of its file");
}

std::string ChatEncoder::settings() const { return fmt::format("{} {} {}", checksum_text(chat_->fingerprint()), static_cast<int>(loss_), end_); }

std::string ChatEncoder::render(const Json& messages, const Json& tools, bool ask, const std::string& where) const {
  Json c{{"messages", messages}, {"add_generation_prompt", ask}};
  if (!tools.is_null()) c["tools"] = tools;
  try {
    return chat_->render(c);
  } catch (const jinja::TemplateError& e) {
    throw UserError("the chat template refuses this conversation", where, e.what(), "correct the record, or set data.chat_template to another template");
  }
}

ChatEncoder::Span ChatEncoder::answer(const std::string& text, const Conversation& c, size_t i, const std::string& where) const {
  Span s;
  const Json& said = c.messages[i]["content"];
  std::string_view words = said.is_string() ? strip_left(strip_right(said.get_ref<const std::string&>())) : "";
  std::string prompt = i == 0 ? "" : render(first(c.messages, i), c.tools, true, where);
  if (i > 0 && text.starts_with(prompt)) {
    s.begin = prompt.size();
    // A template that does not ask puts its heading of the answer ("assistant: ") behind the prompt: that is not what was said.
    size_t at = asks_ || words.empty() ? std::string::npos : text.find(words, s.begin);
    if (at != std::string::npos && !strip_left(std::string_view(text).substr(s.begin, at - s.begin)).empty()) s.begin = at;
  } else {  // the prompt says more than the text repeats, or the conversation opens with an answer: look for its words
    std::string before = i == 0 ? "" : render(first(c.messages, i), c.tools, false, where);
    s.begin = words.empty() ? std::string::npos : text.find(words, common_prefix(text, before));
    if (s.begin == std::string::npos)
      throw UserError("an answer cannot be found in what the chat template makes", where, fmt::format("message {} must appear in the text as it is", i + 1),
                      "set data.loss_on=all, or data.chat_template to another template");
  }
  s.end = text.size();
  if (i + 1 < c.messages.size()) s.end = common_prefix(text, render(first(c.messages, i + 1), c.tools, false, where));
  if (s.end < s.begin)
    throw UserError("the chat template changes earlier messages when later ones come", where, fmt::format("message {} is not where it was", i + 1),
                    "set data.loss_on=last, or data.chat_template to another template");
  if (!end_text_.empty()) {
    size_t at = std::string_view(text).substr(0, s.end).rfind(end_text_);
    if (at != std::string::npos && at >= s.begin) s.end = at + end_text_.size();
  }
  return s;
}

// How many of the ids stand for the first `bytes` of the text, whole.
size_t ChatEncoder::tokens_within(const std::string& text, size_t bytes, const std::vector<int32_t>& ids) const {
  if (bytes >= text.size()) return ids.size();
  if (bytes == 0) return 0;
  std::vector<int32_t> part = tokenizer_.encode(std::string_view(text).substr(0, bytes), false);
  auto [x, y] = std::mismatch(part.begin(), part.begin() + static_cast<ptrdiff_t>(std::min(part.size(), ids.size())), ids.begin());
  auto same = static_cast<size_t>(x - part.begin());
  if (x == part.end()) return same;
  // Cut here, the text has other tokens before the cut: go on by the text that the ids stand for, while it is the same.
  while (same < ids.size()) {
    std::string stands_for = tokenizer_.decode(std::span(ids).first(same + 1), false);
    if (stands_for.size() > bytes || !text.starts_with(stands_for)) break;
    ++same;
  }
  return same;
}

EncodedChat ChatEncoder::encode(const Conversation& c, const std::string& where) const {
  std::string text = render(c.messages, c.tools, false, where);
  EncodedChat e;
  e.ids = tokenizer_.encode(text, false);
  e.learned.assign(e.ids.size(), loss_ == LossOn::all);
  bool ends_with_answer = !c.learned.empty() && c.learned.back();
  if (loss_ != LossOn::all) {
    size_t i = c.learned.size(), found = 0;
    while (i-- > 0 && (found == 0 || loss_ == LossOn::answers)) {
      if (!c.learned[i]) continue;
      ++found;
      Span s = answer(text, c, i, where);
      size_t begin = tokens_within(text, s.begin, e.ids), end = tokens_within(text, s.end, e.ids);
      std::fill(e.learned.begin() + static_cast<ptrdiff_t>(begin), e.learned.begin() + static_cast<ptrdiff_t>(std::max(begin, end)), uint8_t{1});
    }
  }
  if (end_text_.empty() && (loss_ == LossOn::all || ends_with_answer)) {
    e.ids.push_back(end_);
    e.learned.push_back(1);
  }
  while (!e.learned.empty() && e.learned.back() == 0) {
    e.learned.pop_back();
    e.ids.pop_back();
  }
  return e;
}

}  // namespace ravine

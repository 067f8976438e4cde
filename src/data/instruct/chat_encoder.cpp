#include "data/instruct/chat_encoder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "files/checksum.h"
#include "text/unicode/utf8.h"

namespace ravine {

namespace {

size_t common_prefix(std::string_view a, std::string_view b) {
  auto [x, y] = std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  return static_cast<size_t>(x - a.begin());
}

size_t find_text(std::string_view text, std::string_view words, size_t from) {  // in linear time
  if (from > text.size()) return std::string_view::npos;
  const void* at = memmem(text.data() + from, text.size() - from, words.data(), words.size());
  return at ? static_cast<size_t>(static_cast<const char*>(at) - text.data()) : std::string_view::npos;
}

// A template's refusal as the user's error.
template <class F>
auto refused(const std::string& where, F&& what) {
  try {
    return what();
  } catch (const jinja::TemplateError& e) {
    throw UserError("the chat template refuses this conversation", where, e.what(),
                    "correct the record, or set data.chat_template to another template");
  }
}

Json request(const Json& messages, const Json& tools, bool ask) {
  Json c{{"messages", messages}, {"add_generation_prompt", ask}};
  if (!tools.is_null()) c["tools"] = tools;
  return c;
}

// How the renderings of the first messages compare with that of all. Opened when first asked.
class FirstMessages {
 public:
  FirstMessages(const ChatTemplate& chat, const Conversation& c, bool ask, const std::string& text, const std::string& where)
      : chat_(chat), c_(c), ask_(ask), text_(text), where_(where) {}

  struct Compared {
    size_t size = 0, common = 0;  // bytes; of them like the beginning of the text
  };
  Compared first(size_t n) {  // n ascends
    return refused(where_, [&] {
      if (!texts_) {
        const Json asked = request(c_.messages, c_.tools, ask_);
        texts_.emplace(chat_.code(asked), chat_.variables(asked), "messages");
      }
      const jinja::Beginnings::Text t = texts_->first(n);
      const std::string_view lead = std::string_view(texts_->lead()).substr(0, t.shared), text = text_;
      if (common_ == seen_) common_ += common_prefix(lead.substr(std::min(seen_, lead.size())), text.substr(seen_));
      if (t.shared > 0) seen_ = lead.size();
      const size_t common = common_ < lead.size() ? common_ : lead.size() + common_prefix(t.rest, text.substr(lead.size()));
      return Compared{lead.size() + t.rest.size(), common};
    });
  }

 private:
  const ChatTemplate& chat_;
  const Conversation& c_;
  bool ask_;
  const std::string &text_, &where_;
  std::optional<jinja::Beginnings> texts_;
  size_t seen_ = 0, common_ = 0;  // of the lead: compared, alike
};

// Which ids stand for the beginnings of a text. The end token of answers cuts a text in parts that have their ids by
// themselves, so only the part that a beginning ends in is encoded for it; that the parts make up the ids is checked, else the
// whole text is one part.
class TokenPlaces {
 public:
  TokenPlaces(const Tokenizer& tokenizer, const std::string& text, const std::vector<int32_t>& ids, const std::string& end_text,
              int32_t end)
      : tokenizer_(tokenizer), text_(text), ids_(ids), end_bytes_(end_text.size()) {
    parts_.push_back({0, 0});
    size_t at = 0;
    for (size_t i = 0; i < ids.size() && !end_text.empty(); ++i) {
      if (ids[i] != end) continue;
      at = find_text(text, end_text, at);
      if (at == std::string::npos) break;
      parts_.push_back({at, i});
      at += end_text.size();
    }
    for (size_t k = 0; k < parts_.size() && parts_.size() > 1; ++k) {
      const Part next = k + 1 < parts_.size() ? parts_[k + 1] : Part{text.size(), ids.size()};
      const std::vector<int32_t> own =
          tokenizer.encode(std::string_view(text).substr(parts_[k].byte, next.byte - parts_[k].byte), false);
      if (!std::equal(own.begin(), own.end(), ids.begin() + static_cast<ptrdiff_t>(parts_[k].id),
                      ids.begin() + static_cast<ptrdiff_t>(next.id)))
        parts_.resize(1);
    }
  }

  // How many of the ids stand for the first `bytes` of the text, whole.
  size_t within(size_t bytes) {
    if (bytes >= text_.size()) return ids_.size();
    if (bytes == 0) return 0;
    const auto after =
        std::partition_point(parts_.begin() + 1, parts_.end(), [&](const Part& p) { return p.byte + end_bytes_ <= bytes; });
    const Part part = *std::prev(after);
    const std::string_view text = std::string_view(text_).substr(part.byte);
    const std::span<const int32_t> ids = std::span(ids_).subspan(part.id);
    bytes -= part.byte;
    const std::vector<int32_t> own = tokenizer_.encode(text.substr(0, bytes), false);
    auto [x, y] =
        std::mismatch(own.begin(), own.begin() + static_cast<ptrdiff_t>(std::min(own.size(), ids.size())), ids.begin());
    auto same = static_cast<size_t>(x - own.begin());
    if (x == own.end()) return part.id + same;
    // Cut here, the text has other tokens before the cut: go on by the text that the ids stand for, while it is the same.
    while (same < ids.size() && (part.byte == 0 || part.byte <= stands_for_text())) {
      const std::string stands_for = tokenizer_.decode(ids.first(same + 1), false);
      if (stands_for.size() > bytes || !text.starts_with(stands_for)) break;
      ++same;
    }
    return part.id + same;
  }

 private:
  struct Part {
    size_t byte = 0, id = 0;  // where it begins
  };
  // Up to where the text is what the ids before the last part decode to.
  size_t stands_for_text() {
    if (!decoded_) decoded_ = common_prefix(tokenizer_.decode(std::span(ids_).first(parts_.back().id), false), text_);
    return *decoded_;
  }

  const Tokenizer& tokenizer_;
  const std::string& text_;
  const std::vector<int32_t>& ids_;
  size_t end_bytes_;
  std::vector<Part> parts_;
  std::optional<size_t> decoded_;
};

}  // namespace

// A template that writes whatever role it is given would let a slip ("usr") be trained as a speaker of its own.
void check_roles(const ChatTemplate& chat, const Json& messages, const std::string& where) {
  static const std::vector<std::string> usual = {"system",   "user",      "assistant",   "tool",
                                                 "function", "developer", "observation", "ipython"};
  static const std::map<std::string, const char*> others = {
      {"human", "user"},   {"question", "user"},   {"gpt", "assistant"},   {"bot", "assistant"},
      {"ai", "assistant"}, {"model", "assistant"}, {"answer", "assistant"}};
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& given = messages[i]["role"];
    const std::string role = given.is_string() ? given.get<std::string>() : given.dump();
    if (std::find(usual.begin(), usual.end(), role) != usual.end() || chat.names(role)) continue;
    std::string lower = role;
    for (char& ch : lower) ch = static_cast<char>(ch >= 'A' && ch <= 'Z' ? ch - 'A' + 'a' : ch);
    const auto other = others.find(lower);
    const std::string near = other != others.end() ? other->second : nearest(lower, usual);
    throw UserError(fmt::format("unknown role '{}'", role), fmt::format("{}, message {}", where, i + 1),
                    "roles are system, user, assistant and tool; the chat template names no other like it",
                    near.empty() ? "correct the record, or set data.chat_template to a template that knows this role"
                                 : fmt::format("did you mean '{}'?", near));
  }
}

std::string render_messages(const ChatTemplate& chat, const Json& messages, const Json& tools, bool ask,
                            const std::string& where) {
  return refused(where, [&] { return chat.render(request(messages, tools, ask)); });
}

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat, LossOn loss)
    : tokenizer_(tokenizer), chat_(std::move(chat)), loss_(loss) {
  end_ = refused("a question and its answer", [&] { return end_of_answer(tokenizer, *chat_); });
  const Json question = Json::array({{{"role", "user"}, {"content", "Hello"}}});
  asks_ = render_messages(*chat_, question, nullptr, true, "a question") !=
          render_messages(*chat_, question, nullptr, false, "a question");
}

std::string ChatEncoder::settings() const {
  return fmt::format("{} {} {}", checksum_text(chat_->fingerprint()), static_cast<int>(loss_), end_.id);
}

// Of the answers to learn, in order.
std::vector<ChatEncoder::Span> ChatEncoder::answers(const std::string& text, const Conversation& c,
                                                    const std::string& where) const {
  FirstMessages asked(*chat_, c, true, text, where), told(*chat_, c, false, text, where);
  size_t i = 0;
  if (loss_ == LossOn::last)
    for (size_t k = 0; k < c.learned.size(); ++k)
      if (c.learned[k]) i = k;
  std::vector<Span> spans;
  for (; i < c.learned.size(); ++i) {
    if (!c.learned[i]) continue;
    Span s;
    const Json& said = c.messages[i]["content"];
    std::string_view words = said.is_string() ? strip_left(strip_right(said.get_ref<const std::string&>())) : "";
    const FirstMessages::Compared prompt = i == 0 ? FirstMessages::Compared{} : asked.first(i);
    if (i > 0 && prompt.common == prompt.size) {
      s.begin = prompt.size;
      // A template that does not ask puts its heading of the answer ("assistant: ") behind the prompt: that is not what was
      // said.
      size_t at = asks_ || words.empty() ? std::string::npos : find_text(text, words, s.begin);
      if (at != std::string::npos && !strip_left(std::string_view(text).substr(s.begin, at - s.begin)).empty()) s.begin = at;
    } else {  // the prompt says more than the text repeats, or the conversation opens with an answer: look for its words
      const size_t before = i == 0 ? 0 : told.first(i).common;
      s.begin = words.empty() ? std::string::npos : find_text(text, words, before);
      if (s.begin == std::string::npos)
        throw UserError("an answer cannot be found in what the chat template makes", where,
                        fmt::format("message {} must appear in the text as it is", i + 1),
                        "set data.loss_on=all, or data.chat_template to another template");
    }
    s.end = i + 1 < c.messages.size() ? told.first(i + 1).common : text.size();
    if (s.end < s.begin)
      throw UserError("the chat template changes earlier messages when later ones come", where,
                      fmt::format("message {} is not where it was", i + 1),
                      "set data.loss_on=last, or data.chat_template to another template");
    if (!end_.text.empty()) {
      size_t at = std::string_view(text).substr(s.begin, s.end - s.begin).rfind(end_.text);
      if (at != std::string::npos) s.end = s.begin + at + end_.text.size();
    }
    spans.push_back(s);
  }
  return spans;
}

EncodedChat ChatEncoder::encode(const Conversation& c, const std::string& where) const {
  check_roles(*chat_, c.messages, where);
  std::string text = render_messages(*chat_, c.messages, c.tools, false, where);
  EncodedChat e;
  e.ids = tokenizer_.encode(text, false);
  e.learned.assign(e.ids.size(), loss_ == LossOn::all);
  bool ends_with_answer = !c.learned.empty() && c.learned.back();
  if (loss_ != LossOn::all) {
    TokenPlaces places(tokenizer_, text, e.ids, end_.text, end_.id);
    for (Span s : answers(text, c, where)) {
      size_t begin = places.within(s.begin), end = places.within(s.end);
      std::fill(e.learned.begin() + static_cast<ptrdiff_t>(begin),
                e.learned.begin() + static_cast<ptrdiff_t>(std::max(begin, end)), uint8_t{1});
    }
  }
  if (end_.text.empty() && (loss_ == LossOn::all || ends_with_answer)) {
    e.ids.push_back(end_.id);
    e.learned.push_back(1);
  }
  while (!e.learned.empty() && e.learned.back() == 0) {
    e.learned.pop_back();
    e.ids.pop_back();
  }
  return e;
}

}  // namespace ravine

#include "data/instruct/chat_encoder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "files/checksum.h"
#include "text/chat/call_arguments.h"
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

// Turns a refusal of the template into a UserError.
template <class F>
auto refused(const std::string& where, F&& what) {
  try {
    return what();
  } catch (const jinja::TemplateError& e) {
    throw UserError("the chat template refuses this conversation", where, e.what(),
                    "correct the record, or set data.chat_template to another template");
  }
}

Json request(const Json& messages, const Json& tools, bool add_generation_prompt) {
  Json c{{"messages", messages}, {"add_generation_prompt", add_generation_prompt}};
  if (!tools.is_null()) c["tools"] = tools;
  return c;
}

// Compares the rendering of the first n messages with the rendering of all messages. The rendering is created on first
// use.
class FirstMessages {
 public:
  FirstMessages(const ChatTemplate& chat, const Conversation& c, bool add_generation_prompt, const std::string& text,
                const std::string& where)
      : chat_(chat), c_(c), add_generation_prompt_(add_generation_prompt), text_(text), where_(where) {}

  struct Compared {
    size_t size = 0, common = 0;  // bytes of the rendering; common: bytes that are equal to the beginning of the text
  };
  Compared first(size_t n) {  // n ascends
    return refused(where_, [&] {
      if (!texts_) {
        const Json template_input = request(c_.messages, c_.tools, add_generation_prompt_);
        texts_.emplace(chat_.code(template_input), chat_.variables(template_input), "messages");
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
  bool add_generation_prompt_;
  const std::string &text_, &where_;
  std::optional<jinja::Beginnings> texts_;
  size_t seen_ = 0, common_ = 0;  // bytes of the lead: compared, equal
};

// Maps beginnings of a text to its ids. End tokens of answers cut the text into parts with separate ids, so only the
// part in which a beginning ends is encoded. The constructor checks that the ids of the parts are the ids of the text;
// otherwise the whole text is one part.
class TokenRanges {
 public:
  TokenRanges(const Tokenizer& tokenizer, const std::string& text, const std::vector<int32_t>& ids, const std::string& end_text,
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

  // Returns the number of ids that represent the first `bytes` bytes of the text completely.
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
    // Cut here, the text has other tokens before the cut. Continue by the text that the ids decode to, while it is
    // equal.
    while (same < ids.size() && (part.byte == 0 || part.byte <= stands_for_text())) {
      const std::string stands_for = tokenizer_.decode(ids.first(same + 1), false);
      if (stands_for.size() > bytes || !text.starts_with(stands_for)) break;
      ++same;
    }
    return part.id + same;
  }

 private:
  struct Part {
    size_t byte = 0, id = 0;  // where the part begins
  };
  // Returns the number of bytes for which the text is equal to the decoded ids before the last part.
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

// A template that writes any role would let a misspelled role ("usr") be trained as another speaker.
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

std::string render_messages(const ChatTemplate& chat, const Json& messages, const Json& tools, bool add_generation_prompt,
                            const std::string& where) {
  return refused(where, [&] { return chat.render(request(messages, tools, add_generation_prompt)); });
}

namespace {

std::string_view words_of(const Json& message) {
  const Json& content = message["content"];
  return content.is_string() ? strip_left(strip_right(content.get_ref<const std::string&>())) : "";
}

// Returns the begin of an answer whose words are at `at`. The begin includes the white space that the record has before
// the words, as far as the text has it after `from`.
size_t with_blanks(std::string_view text, size_t at, size_t from, const Json& message) {
  const Json& content = message["content"];
  if (!content.is_string()) return at;
  const auto& whole = content.get_ref<const std::string&>();
  auto blanks = static_cast<size_t>(words_of(message).data() - whole.data());
  while (blanks > 0 && at > from && text[at - 1] == whole[blanks - 1]) --at, --blanks;
  return at;
}

bool has_calls(const Json& message) {
  return message.contains("function_call") ||
         (message.contains("tool_calls") && message["tool_calls"].is_array() && !message["tool_calls"].empty());
}

// True if each function that a message calls is named in the text that a template writes for it.
bool names_calls(const Json& message, std::string_view written) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return true;
  for (const Json& call : message["tool_calls"]) {
    if (!call.is_object()) continue;
    const Json& of = call.contains("function") && call["function"].is_object() ? call["function"] : call;
    if (of.contains("name") && of["name"].is_string() &&
        written.find(of["name"].get_ref<const std::string&>()) == std::string_view::npos)
      return false;
  }
  return true;
}

// True if the template writes all calls: calls of renamed functions, whose name no tool has, appear in the text.
bool writes_calls(const ChatTemplate& chat, Json conversation) {
  for (Json& message : conversation["messages"]) {
    if (!has_calls(message) || !message.contains("tool_calls")) continue;
    for (Json& call : message["tool_calls"]) {
      if (!call.is_object()) continue;
      Json& of = call.contains("function") && call["function"].is_object() ? call["function"] : call;
      if (of.contains("name")) of["name"] = "ravine_function";
    }
  }
  try {
    const std::string text = chat.render(conversation);
    return std::all_of(conversation["messages"].begin(), conversation["messages"].end(),
                       [&](const Json& message) { return names_calls(message, text); });
  } catch (const jinja::TemplateError&) {
    return false;
  }
}

}  // namespace

Json written_messages(const ChatTemplate& chat, const Json& messages, const Json& tools, const std::string& where) {
  if (std::none_of(messages.begin(), messages.end(), has_calls)) return messages;
  return refused(where, [&] {
    const Json written = with_written_arguments(chat, request(messages, tools, false));
    if (writes_calls(chat, written)) return written["messages"];
    Json silent = messages;
    for (Json& message : silent)
      if (has_calls(message) && words_of(message).empty()) message["content"] = nullptr;
    silent = with_written_arguments(chat, request(silent, tools, false));
    return writes_calls(chat, silent) ? silent["messages"] : written["messages"];
  });
}

EndOfAnswer end_of_answers(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  return refused("a question and its answer", [&] { return end_of_answer(tokenizer, chat); });
}

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat, LossOn loss)
    : tokenizer_(tokenizer), chat_(std::move(chat)), loss_(loss) {
  end_ = end_of_answers(tokenizer, *chat_);
  const Json question = Json::array({{{"role", "user"}, {"content", "Hello"}}});
  prompt_changes_text_ = render_messages(*chat_, question, nullptr, true, "a question") !=
                         render_messages(*chat_, question, nullptr, false, "a question");
}

std::string ChatEncoder::settings() const {
  return fmt::format("{} {} {}", checksum_text(chat_->fingerprint()), static_cast<int>(loss_), end_.id);
}

namespace {

// Finds the answers in the text. The conversation is rendered again with a mark instead of each answer; the text
// between the marks must be equal to the text between the answers.
class AnswerFinder {
 public:
  AnswerFinder(const ChatTemplate& chat, const Conversation& c, const std::string& text) : begins_(c.messages.size()) {
    Json marked = c.messages;
    for (size_t i = 0; i < marked.size(); ++i)
      if (const std::string_view words = words_of(c.messages[i]); c.learned[i] && !words.empty()) {
        const auto& whole = c.messages[i]["content"].get_ref<const std::string&>();
        const auto before = static_cast<size_t>(words.data() - whole.data());
        marked[i]["content"] = whole.substr(0, before) + mark(i) + whole.substr(before + words.size());
      }
    std::string other;
    try {
      other = chat.render(request(marked, c.tools, false));
    } catch (const jinja::TemplateError&) {
      return;
    }
    size_t at = 0, from = 0;  // at: in the text; from: in the other one
    for (size_t i = 0; i < begins_.size(); ++i) {
      const std::string_view words = words_of(c.messages[i]);
      if (!c.learned[i] || words.empty()) continue;
      const size_t here = find_text(other, mark(i), from);
      if (here == std::string::npos) continue;
      if (text.compare(at, here - from, other, from, here - from) != 0) return;
      at += here - from, from = here + mark(i).size();
      if (text.compare(at, words.size(), words) != 0) return;
      begins_[i] = at;
      at += words.size();
    }
  }
  std::optional<size_t> begin(size_t message) const { return begins_[message]; }

 private:
  // Private use characters, of no script.
  static std::string mark(size_t i) { return fmt::format("\ue000{}\ue001", i); }
  std::vector<std::optional<size_t>> begins_;
};

std::string without_space(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') out += c;
  return out;
}

}  // namespace

// Returns the offset after the next special token, if only white space is before it; npos if there is none. A token
// that also occurs before `body` (the words of the first message) opens messages and does not end them.
size_t ChatEncoder::end_behind(const std::string& text, size_t at, size_t body) const {
  constexpr size_t kNear = 256;
  for (const int32_t id : tokenizer_.encode(std::string_view(text).substr(at, kNear), false)) {
    const std::span<const int32_t> one(&id, 1);
    const std::string seen = tokenizer_.decode(one, false);
    if (!seen.empty() && tokenizer_.decode(one, true).empty()) {
      std::string piece = tokenizer_.id_to_piece(id);
      if (find_text(text, piece, at) == std::string::npos) piece = strip_left(strip_right(seen));
      const size_t found = find_text(text, piece, at);
      const bool opens = piece != end_.text && find_text(text.substr(0, body), piece, 0) != std::string::npos;
      return found == std::string::npos || opens ? std::string::npos : found + piece.size();
    }
    if (!strip_left(seen).empty()) break;
  }
  return std::string::npos;
}

size_t ids_before_message(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages, const Json& tools,
                          size_t n, const std::string& text, const std::vector<int32_t>& ids, const std::string& where) {
  if (n == 0) return 0;
  const Json first(Json::array_t(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(n)));
  const std::string prompt = render_messages(chat, first, tools, true, where);
  size_t begin = common_prefix(prompt, text);
  if (begin < prompt.size()) {
    const size_t before = common_prefix(render_messages(chat, first, tools, false, where), text);
    const std::string_view words = words_of(messages[n]);
    const size_t at = words.empty() ? std::string::npos : find_text(text, words, before);
    if (at != std::string::npos) begin = with_blanks(text, at, std::max(before, std::min(begin, at)), messages[n]);
  }
  return TokenRanges(tokenizer, text, ids, "", -1).within(begin);
}

namespace {

// True if a text ends with its last answer and the template has written no end token after it.
bool is_bare(const Tokenizer& tokenizer, const EndOfAnswer& end, const std::vector<int32_t>& ids, const std::string& text,
             std::string_view words) {
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    const std::span<const int32_t> one(&*id, 1);
    const std::string seen = tokenizer.decode(one, false);
    if (!seen.empty() && strip_left(seen).empty()) continue;
    const bool unknown = *id == tokenizer.special().unk && *id != tokenizer.special().eos;
    if (!seen.empty() && !unknown && tokenizer.decode(one, true).empty()) return false;
    break;
  }
  return end.text.empty() || words.empty() || strip_right(text).ends_with(words);
}

}  // namespace

void append_missing_end(const Tokenizer& tokenizer, const EndOfAnswer& end, const Json& last_message, const std::string& text,
                        std::vector<int32_t>& ids) {
  const std::string_view words = words_of(last_message);
  if (last_message["role"] != "assistant" || !is_bare(tokenizer, end, ids, text, words)) return;
  if (const size_t at = text.rfind(words); !words.empty() && at != std::string::npos)  // without white space at the end
    ids.resize(TokenRanges(tokenizer, text, ids, "", -1).within(at + words.size()));
  ids.push_back(end.id);
}

// Returns the answers to learn, in order: each span holds the answer and the end token that the template writes.
std::vector<ChatEncoder::Span> ChatEncoder::answers(const std::string& text, bool bare, const Conversation& c,
                                                    const std::string& where) const {
  FirstMessages with_generation(*chat_, c, true, text, where), without_generation(*chat_, c, false, text, where);
  std::optional<AnswerFinder> finder;
  auto answer_begin = [&](size_t message) {
    if (!finder) finder.emplace(*chat_, c, text);
    return finder->begin(message);
  };
  const auto last = static_cast<size_t>(c.learned.rend() - std::find(c.learned.rbegin(), c.learned.rend(), true)) - 1;
  auto lost = [&] [[noreturn]] (size_t message, const char* rule) {
    throw UserError("an answer cannot be found in the text that the chat template renders", where,
                    fmt::format("message {} must appear in the text {}", message + 1, rule),
                    fmt::format("set data.loss_on={}, or data.chat_template to another template",
                                message == last || loss_ == LossOn::last ? "all" : "last"));
  };
  std::vector<Span> spans;
  for (size_t i = loss_ == LossOn::last && last < c.learned.size() ? last : 0; i < c.learned.size(); ++i) {
    if (!c.learned[i]) continue;
    Span s;
    const std::string_view words = words_of(c.messages[i]);
    const FirstMessages::Compared prompt = i == 0 ? FirstMessages::Compared{} : with_generation.first(i);
    if (i > 0 && prompt.common == prompt.size) {
      s.begin = prompt.size;
      // A template without a generation prompt writes the heading of the answer ("assistant: ") after the prompt: it is
      // not part of the answer.
      size_t at = prompt_changes_text_ || words.empty() ? std::string::npos : find_text(text, words, s.begin);
      if (at != std::string::npos && !strip_left(std::string_view(text).substr(s.begin, at - s.begin)).empty())
        s.begin = with_blanks(text, at, s.begin, c.messages[i]);
      // The prompt has text that the conversation does not repeat, or the conversation begins with an answer: find its
      // words.
    } else {
      const FirstMessages::Compared before = i == 0 ? FirstMessages::Compared{} : without_generation.first(i);
      s.begin = words.empty()                  ? std::string::npos
                : before.common == before.size ? find_text(text, words, before.common)
                                               : answer_begin(i).value_or(std::string::npos);
      if (s.begin == std::string::npos) lost(i, "as it is");
      s.begin = with_blanks(text, s.begin, std::max(prompt.common, before.common), c.messages[i]);
    }
    const FirstMessages::Compared behind =
        i + 1 < c.messages.size() ? without_generation.first(i + 1) : FirstMessages::Compared{text.size(), text.size()};
    s.end = std::max(behind.common, s.begin);
    const std::string_view span = std::string_view(text).substr(s.begin, s.end - s.begin);
    const bool whole = behind.common == behind.size;  // the text begins with the rendering of the first messages
    const size_t stop = end_.text.empty() ? 0 : span.rfind(end_.text);
    size_t words_at = words.empty() ? 0 : std::string::npos;
    if (!words.empty() && stop != std::string::npos && stop >= words.size())
      words_at = span.rfind(words, stop - words.size());  // the end token may contain letters of the answer
    if (words_at == std::string::npos) words_at = span.rfind(words);
    const bool ends =
        end_.text.empty() || (stop != std::string::npos && words_at != std::string::npos && stop >= words_at + words.size());
    if (i + 1 == c.messages.size() && bare && (words.empty() ? stop == std::string::npos : words_at != std::string::npos)) {
      if (!words.empty()) s.end = s.begin + span.rfind(words) + words.size();
      if (!names_calls(c.messages[i], std::string_view(text).substr(s.begin, s.end - s.begin)))
        lost(i, "with its calls of tools");
      spans.push_back(s);
      continue;
    }
    if (words_at != std::string::npos && ends && (whole || (!words.empty() && !end_.text.empty()))) {
      if (!end_.text.empty()) s.end = s.begin + stop + end_.text.size();
    } else if (whole && words_at == std::string::npos) {  // white space may differ, as around thoughts
      if (without_space(span).find(without_space(words)) == std::string::npos) lost(i, "as it is");
      if (!end_.text.empty() && stop == std::string::npos) lost(i, "with an end token behind it");
      if (!end_.text.empty()) s.end = s.begin + stop + end_.text.size();
    } else {  // the template writes an earlier answer in another way than the last one
      std::optional<size_t> from = words.empty() ? std::optional<size_t>(s.begin)
                                   : whole       ? s.begin + words_at
                                                 : answer_begin(i);
      if (!from || *from < s.begin) lost(i, "as it is");
      const size_t over = *from + words.size();
      const size_t end = words.empty() ? find_text(text, end_.text, over)
                                       : end_behind(text, over, find_text(text, words_of(c.messages[0]), 0));
      if (!end_.text.empty() && end == std::string::npos) lost(i, "with an end token behind it");
      s.end = end_.text.empty() ? std::max(over, behind.common) : words.empty() ? end + end_.text.size() : end;
    }
    if (!names_calls(c.messages[i], std::string_view(text).substr(s.begin, s.end - s.begin)))
      lost(i, "with its calls of tools");
    spans.push_back(s);
  }
  return spans;
}

EncodedChat ChatEncoder::encode(const Conversation& given, const std::string& where) const {
  check_roles(*chat_, given.messages, where);
  const Conversation c{written_messages(*chat_, given.messages, given.tools, where), given.tools, given.learned};
  std::string text = render_messages(*chat_, c.messages, c.tools, false, where);
  EncodedChat e;
  e.ids = tokenizer_.encode(text, false);
  e.learned.assign(e.ids.size(), loss_ == LossOn::all);
  const bool ends_with_answer = !c.learned.empty() && c.learned.back();
  const bool bare = ends_with_answer && is_bare(tokenizer_, end_, e.ids, text, words_of(c.messages.back()));
  if (loss_ != LossOn::all) {
    TokenRanges token_ranges(tokenizer_, text, e.ids, end_.text, end_.id);
    for (Span s : answers(text, bare && !end_.text.empty(), c, where)) {
      size_t begin = token_ranges.within(s.begin), end = token_ranges.within(s.end);
      std::fill(e.learned.begin() + static_cast<ptrdiff_t>(begin),
                e.learned.begin() + static_cast<ptrdiff_t>(std::max(begin, end)), uint8_t{1});
    }
  }
  auto leave_out_the_rest = [&] {
    while (!e.learned.empty() && e.learned.back() == 0) e.learned.pop_back(), e.ids.pop_back();
  };
  if (!end_.text.empty()) leave_out_the_rest();
  if (end_.text.empty() ? !ends_with_answer ? loss_ == LossOn::all : bare : bare && e.ids.back() != end_.id) {
    e.ids.push_back(end_.id);
    e.learned.push_back(1);
  }
  leave_out_the_rest();
  return e;
}

}  // namespace ravine

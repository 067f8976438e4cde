#include "text/chat/end_of_answer.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/unicode/utf8.h"

namespace ravine {

namespace {

struct Special {
  size_t begin = 0;  // offset in the searched text
  EndOfAnswer token;
};

// Returns the special tokens of a text, in order.
std::vector<Special> specials_in(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Special> found;
  size_t at = 0;
  for (const int32_t id : tokenizer.encode(text, false)) {
    const std::span<const int32_t> one(&id, 1);
    const std::string seen = tokenizer.decode(one, false);
    if (seen.empty() || (id == tokenizer.special().unk && id != tokenizer.special().eos) ||
        !tokenizer.decode(one, true).empty())
      continue;
    EndOfAnswer token{tokenizer.id_to_piece(id), id};
    size_t begin = text.find(token.text, at);
    if (begin == std::string_view::npos) {
      token.text = strip_left(strip_right(seen));
      begin = text.find(token.text, at);
    }
    if (begin == std::string_view::npos) continue;
    at = begin + token.text.size();
    found.push_back({begin, token});
  }
  return found;
}

bool is_blank(std::string_view text) { return strip_left(text).empty(); }

}  // namespace

EndOfAnswer end_of_answer(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  const std::vector<std::string> words = {"Hello", "Ravine", "River", "Gorge"};
  Json messages = Json::array();
  for (size_t i = 0; i < 2; ++i) messages.push_back({{"role", i ? "assistant" : "user"}, {"content", words[i]}});
  const std::string text = chat.render({{"messages", messages}, {"add_generation_prompt", false}});
  const size_t at = text.rfind(words[1]);
  if (at == std::string::npos)
    throw UserError("the chat template drops the answer", "a question and its answer", "it must write what the assistant said",
                    "use another template");

  // Tokens that open messages end no answer: the first special token of a text, except bos. So is a token that is alone
  // between an answer and the next question, and also occurs before the first question.
  const auto& eos = tokenizer.special().eos;
  auto ends = [&](const Special& s, const std::vector<Special>& before, bool alone) {
    if (s.token.id == eos) return true;
    const auto first =
        std::find_if(before.begin(), before.end(), [&](const Special& b) { return b.token.id != tokenizer.special().bos; });
    if (first != before.end() && first->token.id == s.token.id) return false;
    return !alone || std::none_of(before.begin(), before.end(), [&](const Special& b) { return b.token.id == s.token.id; });
  };
  // Returns the end token in the text after an answer.
  auto end_in = [&](std::string_view behind, std::string_view whole, bool last) -> std::optional<EndOfAnswer> {
    const std::vector<Special> after = specials_in(tokenizer, behind),
                               before = specials_in(tokenizer, whole.substr(0, whole.find(words[0])));
    if (after.empty()) return std::nullopt;
    if (last && is_blank(behind.substr(0, after[0].begin))) return after[0].token;
    if (!ends(after[0], before, !last && after.size() == 1)) return std::nullopt;
    return after[0].token;
  };
  if (auto end = end_in(std::string_view(text).substr(at + words[1].size()), text, true)) return *end;

  // A template may write the end token after other answers than the last one, or not after each.
  for (size_t i = 2; i < words.size(); ++i) messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", words[i]}});
  std::string longer;
  try {
    longer = chat.render({{"messages", messages}, {"add_generation_prompt", false}});
  } catch (const jinja::TemplateError&) {  // the template accepts a single question only
  }
  if (const size_t last = longer.rfind(words[3]); last != std::string::npos)
    if (auto end = end_in(std::string_view(longer).substr(last + words[3].size()), longer, true)) return *end;
  const size_t answer = longer.find(words[1]), next = longer.find(words[2], std::min(answer, longer.size()));
  if (next != std::string::npos) {
    const size_t behind = answer + words[1].size();
    if (auto end = end_in(std::string_view(longer).substr(behind, next - behind), longer, false)) return *end;
  }

  if (!eos)
    throw UserError(
        "no end token", "chat template", "neither the template nor the tokenizer has one, so a model would never stop",
        "a model's tokenizer_config.json names its end token: copy it beside the tokenizer (or: ravine tokenizer train --special-tokens TOKEN .. makes one that has such tokens)");
  const std::string piece = tokenizer.id_to_piece(*eos);
  if (text.find(piece, at) != std::string::npos && specials_in(tokenizer, piece).empty())
    throw UserError(fmt::format("the tokenizer does not know '{}' when it stands in text", piece), "chat template",
                    "a raw SentencePiece file has no special strings", "name the tokenizer's folder instead of its file");
  return {"", *eos};
}

}  // namespace ravine

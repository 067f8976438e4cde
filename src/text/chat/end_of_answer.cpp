#include "text/chat/end_of_answer.h"

#include <span>
#include <string_view>

#include "base/error.h"
#include "text/unicode/utf8.h"

namespace ravine {

EndOfAnswer end_of_answer(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  const std::string answer = "Ravine";
  const Json probe = {{{"role", "user"}, {"content", "Hello"}}, {{"role", "assistant"}, {"content", answer}}};
  const std::string text = chat.render({{"messages", probe}, {"add_generation_prompt", false}});
  const size_t at = text.rfind(answer);
  if (at == std::string::npos)
    throw UserError("the chat template drops the answer", "a question and its answer", "it must write what the assistant said",
                    "use another template");
  for (int32_t id : tokenizer.encode(std::string_view(text).substr(at + answer.size()), false)) {
    std::span<const int32_t> one(&id, 1);
    const std::string seen = tokenizer.decode(one, false);
    if (!seen.empty() && tokenizer.decode(one, true).empty()) {
      EndOfAnswer end{tokenizer.id_to_piece(id), id};
      if (text.find(end.text, at) == std::string::npos) end.text = std::string(strip_left(strip_right(seen)));
      return end;
    }
    if (!strip_left(seen).empty()) break;
  }
  if (!tokenizer.special().eos)
    throw UserError(
        "no end token", "chat template", "neither the template nor the tokenizer has one, so a model would never stop",
        "a model's tokenizer_config.json names its end token: copy it beside the tokenizer (or: ravine tokenizer train --special-tokens TOKEN .. makes one that has such tokens)");
  const int32_t eos = *tokenizer.special().eos;
  const std::string piece = tokenizer.id_to_piece(eos);
  if (text.find(piece, at) != std::string::npos)
    throw UserError(fmt::format("the tokenizer does not know '{}' when it stands in text", piece), "chat template",
                    "a raw SentencePiece file has no special strings", "name the tokenizer's folder instead of its file");
  return {"", eos};
}

}  // namespace ravine

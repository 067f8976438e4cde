// Any bytes as the settings files of a Llama tokenizer. Zero bytes separate tokenizer_config.json,
// special_tokens_map.json, added_tokens.json and a text. The files give a UserError, or special tokens with an id each.
// These split the text and lose nothing but blanks.
#include "text/tokenizers/llama_settings.h"

#include "base/error.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  static const Scratch scratch;
  std::string_view rest = text_of(data, size);
  auto next = [&] {
    const size_t end = rest.find('\0');
    const std::string_view part = rest.substr(0, end);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    return part;
  };
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    const std::string_view part = next();
    if (part.empty())
      scratch.remove(name);
    else
      scratch.write(name, part);
  }
  const std::string_view text = next();
  try {
    const LlamaSettings s = load_llama_settings(scratch.folder(), 300, [](const std::string& t) {
      return t == "<unk>" ? 0 : t == "<s>" ? 1 : t == "</s>" ? 2 : -1;
    });
    for (const AddedToken& t : s.added.list())
      if (t.content.empty() || t.id < 0 || s.added.by_id(t.id) == nullptr || s.added.by_content(t.content) != &t) std::abort();
    for (const auto& entry : s.named)
      if (!s.added.by_content(entry.second)) std::abort();
    size_t length = 0;
    for (const TextPart& part : s.added.split(text)) {
      if (part.text.empty() || part.token >= static_cast<int>(s.added.list().size())) std::abort();
      length += part.text.size();
    }
    if (length > text.size()) std::abort();
  } catch (const UserError&) {
  }
  return 0;
}

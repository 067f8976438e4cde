// SentencePiece's table of normalization rules (`precompiled_charsmap`), applied like the crate spm_precompiled.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

class PrecompiledRules {
 public:
  // base64: the table as in a tokenizer.json. A damaged table is a UserError that names `where`.
  PrecompiledRules(std::string_view base64, const std::string& where);
  std::string apply(std::string_view text) const;

 private:
  // Returns the replacement of the rule that matches the beginning of the text; null if no rule matches.
  const char* find(std::string_view text) const;
  std::vector<uint32_t> trie_;
  std::string replacements_;  // each ends with a zero byte
};

// The largest size in bytes of the replacement of a character or cluster. Unicode's own rules need 33.
inline constexpr size_t kLongestReplacement = 256;

// Checks a table of normalization rules. Throws a UserError that names `where` if a rule or replacement is too long, or
// if a step of the trie leads out of the table. blob: the size of the trie, the trie (darts-clone units), then the
// replacements.
void check_precompiled(std::string_view blob, const std::string& where);

std::string to_base64(std::string_view bytes);

}  // namespace ravine

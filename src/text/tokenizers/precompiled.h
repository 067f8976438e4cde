// SentencePiece's table of normalization rules (`precompiled_charsmap`), applied like the crate spm_precompiled.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

class PrecompiledRules {
 public:
  // A damaged table is a UserError that names `where`.
  PrecompiledRules(std::string_view base64, const std::string& where);
  std::string apply(std::string_view text) const;

 private:
  // Returns the replacement of the text; null if no rule matches its beginning.
  const char* find(std::string_view text) const;
  std::vector<uint32_t> trie_;
  std::string replacements_;  // each ends with a zero byte
};

// Limit of the bytes that replace a character or cluster; Unicode's own rules need 33.
inline constexpr size_t kLongestReplacement = 256;

// Checks that rules and replacements have limited lengths, and that no step leads out of the table. The blob: size of
// the trie, the trie (darts-clone units), the replacements.
void check_precompiled(std::string_view blob, const std::string& where);

std::string to_base64(std::string_view bytes);

}  // namespace ravine

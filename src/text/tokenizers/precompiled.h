// SentencePiece's table of normalisation rules (`precompiled_charsmap`), applied as crate spm_precompiled does.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

class PrecompiledRules {
 public:
  PrecompiledRules(std::string_view base64, const std::string& where);  // a damaged table is a UserError naming `where`
  std::string apply(std::string_view text) const;

 private:
  // What stands for the text; null if no rule begins like it.
  const char* find(std::string_view text) const;
  std::vector<uint32_t> trie_;
  std::string replacements_;  // each ended by a zero byte
};

// Bytes that a rule may put in the place of a character or cluster; Unicode's own need 33.
inline constexpr size_t kLongestReplacement = 256;

// Checks that rules and replacements have bounded lengths, and that no step in the table leads out of it: size of the trie,
// trie (darts-clone units), then the replacements.
void check_precompiled(std::string_view blob, const std::string& where);

std::string to_base64(std::string_view bytes);

}  // namespace ravine

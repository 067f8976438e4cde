// A cache of the tokens of text and conversations, in a folder, for the next start of a run: FOLDER/<key>.safetensors.
// The key is a checksum of the files' bytes, the tokenizer, and every option that changes the ids. So an entry is valid
// for its key, or ignored. Entries are written atomically.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/instruct/chat_set.h"
#include "data/instruct/preference.h"
#include "data/token_store.h"

namespace ravine {

// Return the key of the tokens of these files in the token cache: a checksum of the files' bytes, the tokenizer and all
// options that change the ids. All files are read whole.
uint64_t token_key(const std::vector<std::string>& files, const Tokenizer& tokenizer, const TokenizeOptions& options);
uint64_t chats_key(const std::vector<std::string>& files, const Tokenizer& tokenizer, const ChatEncoder& encoder,
                   const ChatSetOptions& options);
uint64_t pairs_key(const std::vector<std::string>& files, const Tokenizer& tokenizer, const PairEncoder& encoder,
                   const ChatSetOptions& options);

// Return the tokens that the cache in `folder` has under a key; nothing if the entry is missing or damaged. The tokens
// are equal to the result of tokenize_files, read_chats or read_pairs for these files.
std::optional<TokenizedFiles> load_tokens(const std::string& folder, uint64_t key, const std::vector<std::string>& files,
                                          const Tokenizer& tokenizer);
std::optional<ChatSet> load_chats(const std::string& folder, uint64_t key, const std::vector<std::string>& files,
                                  const Tokenizer& tokenizer);

// The tokens of one source in a run: loaded from the cache, or to be written to it. Either text, or conversations (or
// pairs).
struct TokensInUse {
  uint64_t key = 0;
  bool fresh = false;  // true: the cache does not have these tokens yet
  std::shared_ptr<const TokenStore> train, held_out;
  std::shared_ptr<const ChatStore> chats, held_out_chats;
  std::vector<std::string> files;  // files of the conversations
  ChatCounts counts;
  ChatFormat format = ChatFormat::alpaca;
};

// Writes tokens to the cache in `folder`, which is created: those that are `fresh`. Entries whose keys are not in
// `tokens` are removed; other files in the folder stay. A full disk is a DiskFull; the run can continue without the
// cache.
void save_tokens(const std::string& folder, std::vector<TokensInUse>& tokens);

}  // namespace ravine

// Tokens of text and conversations kept in a folder from one start of a run to the next: FOLDER/<key>.safetensors. The key is a
// checksum of the files' bytes, of the tokenizer and of every option that changes the ids, so a file can only be of use or be
// passed over. Written atomically.
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

// They read all files.
uint64_t token_key(const std::vector<std::string>& files, const Tokenizer& tokenizer, const TokenizeOptions& options);
uint64_t chats_key(const std::vector<std::string>& files, const Tokenizer& tokenizer, const ChatEncoder& encoder,
                   const ChatSetOptions& options);
uint64_t pairs_key(const std::vector<std::string>& files, const Tokenizer& tokenizer, const PairEncoder& encoder,
                   const ChatSetOptions& options);

// What was kept under the key, as tokenize_files and read_chats (read_pairs) would give it for these files; nothing if it is
// not there or damaged.
std::optional<TokenizedFiles> load_tokens(const std::string& folder, uint64_t key, const std::vector<std::string>& files,
                                          const Tokenizer& tokenizer);
std::optional<ChatSet> load_chats(const std::string& folder, uint64_t key, const std::vector<std::string>& files,
                                  const Tokenizer& tokenizer);

// Tokens of a run: what it read from the cache, and what is to be written there. Either text or conversations (or pairs).
struct TokensInUse {
  uint64_t key = 0;
  bool fresh = false;  // not in the folder yet
  std::shared_ptr<const TokenStore> train, held_out;
  std::shared_ptr<const ChatStore> chats, held_out_chats;
  std::vector<std::string> files;  // of the conversations
  ChatCounts counts;
  ChatFormat format = ChatFormat::alpaca;
};

// Creates the folder, writes what is fresh and removes entries of other keys, and nothing that was not written here. A full
// disk is a DiskFull; the run can go on without.
void save_tokens(const std::string& folder, std::vector<TokensInUse>& tokens);

}  // namespace ravine

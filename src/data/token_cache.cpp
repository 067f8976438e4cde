#include "data/token_cache.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <list>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "files/checksum.h"
#include "files/safetensors.h"
#include "files/temporary.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFormat = "ravine-tokens-1";
// The number is raised with each change of the encoders, so that old entries are not used.
constexpr const char *kChatFormat = "ravine-chats-3", *kAnyChatFormat = "ravine-chats-";

std::string file_of(const std::string& folder, uint64_t key) {
  return (fs::path(folder) / (checksum_text(key) + ".safetensors")).string();
}

uint64_t checksum_of_all(const std::vector<std::span<const std::byte>>& parts) {
  Checksum sum;
  for (auto p : parts) sum.update(p);
  return sum.value();
}

// Returns the checksum of `text` and of the bytes and suffixes of the files.
uint64_t cache_key(std::string text, const std::vector<std::string>& files) {
  // The suffix decides how a file is read.
  for (const std::string& f : files) {
    std::string name = fs::path(f).filename().string();
    text += fmt::format(" {}{}", checksum_text(checksum_of_file(f)), name.substr(std::min(name.size(), name.find('.'))));
  }
  return checksum_of(std::as_bytes(std::span(text)));
}

// Collects the tensors of an entry, in order. The tensors are views: the stores must outlive this object.
class CacheContents {
 public:
  void add(const std::string& name, DType t, std::span<const std::byte> bytes) {
    tensors.push_back({name, t, {static_cast<int64_t>(bytes.size()) / size_of(t)}, bytes});
    parts.push_back(bytes);
  }
  void add(const std::string& name, const TokenStore& store) {
    starts_.push_back(store.file_starts());
    add(name + ".ids", DType::u8, store.id_bytes());
    add(name + ".ends", DType::i64, std::as_bytes(std::span(store.ends())));
    add(name + ".files", DType::i64, std::as_bytes(std::span(starts_.back())));
  }
  void add(const std::string& name, const ChatStore& store, const std::vector<std::string>& files) {
    starts_.push_back(store.file_offsets(files));
    const ChatStore::Bytes b = store.bytes(starts_.back());
    add(name + ".ids", DType::u8, b.ids);
    add(name + ".ends", DType::i64, b.ends);
    add(name + ".learned", DType::u8, b.learned);
    add(name + ".records", DType::i64, b.records);
    add(name + ".files", DType::i64, b.files);
  }
  std::vector<TensorBytes> tensors;
  std::vector<std::span<const std::byte>> parts;

 private:
  std::list<std::vector<int64_t>> starts_;
};

// A complete entry of the cache; the constructor throws if the entry is damaged.
struct CacheEntry {
  CacheEntry(const std::string& path, uint64_t key, const char* format, const std::vector<const char*>& names) : in(path) {
    for (const char* store : {"train.", "held_out."})
      for (const char* name : names) parts.push_back(in.bytes(in.tensor(std::string(store) + name)));
    std::string text;
    if (auto counts = in.metadata().find("counts"); counts != in.metadata().end())
      text = counts->second, parts.push_back(std::as_bytes(std::span(text)));
    const uint64_t sum = checksum_of_all(parts);
    if (!text.empty()) parts.pop_back();
    require(in.metadata().at("format") == format && in.metadata().at("key") == checksum_text(key) &&
                in.metadata().at("checksum") == checksum_text(sum),
            "token cache: another's, or damaged");
  }
  SafetensorsReader in;
  std::vector<std::span<const std::byte>> parts;
};

// Returns the result of read(), or nothing if it throws: damaged entries and other files are ignored, and the text is
// tokenized again.
template <class F>
auto or_nothing(const std::string& path, F read) -> decltype(read()) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  try {
    return read();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// True if the name is of an entry of this cache; is_cache_entry() also checks the key inside.
bool is_entry_name(const std::string& name) {
  uint64_t key;
  return fs::path(name).extension() == ".safetensors" && parse_checksum(fs::path(name).stem().string(), &key);
}

bool is_cache_entry(const fs::directory_entry& entry) {
  std::error_code ignored;
  const fs::path& path = entry.path();
  if (entry.symlink_status(ignored).type() != fs::file_type::regular || !is_entry_name(path.filename().string())) return false;
  try {
    const SafetensorsReader in(path.string());
    const auto format = in.metadata().find("format"), stored_key = in.metadata().find("key");
    return format != in.metadata().end() && (format->second == kFormat || format->second.starts_with(kAnyChatFormat)) &&
           stored_key != in.metadata().end() && stored_key->second == path.stem().string();
  } catch (const std::exception&) {
    return false;
  }
}

Json counts_of(const ChatCounts& c, ChatFormat format) {
  return {{"format", name(format)},
          {"records", c.records},
          {"cut", c.cut},
          {"too_long", c.too_long},
          {"without_answer", c.without_answer},
          {"answer_behind", c.answer_behind},
          {"tokens", c.tokens},
          {"learned", c.learned},
          {"first_without_answer", c.first_without_answer}};
}

}  // namespace

uint64_t token_key(const std::vector<std::string>& files, const Tokenizer& tokenizer, const TokenizeOptions& o) {
  return cache_key(fmt::format("{} {} {} {} {} {} {:a}", kFormat, tokenizer.fingerprint(), tokenizer.size(), o.append_eos,
                               o.vocabulary, o.text_key.size(), o.held_out) +
                       (o.held_out > 0 ? "by bytes " : "") + o.text_key,
                   files);
}

uint64_t chats_key(const std::vector<std::string>& files, const Tokenizer& tokenizer, const ChatEncoder& encoder,
                   const ChatSetOptions& o) {
  return cache_key(
      fmt::format("{} {} {} {} {} {} {} {} {:a}", kChatFormat, tokenizer.fingerprint(), tokenizer.size(), encoder.settings(),
                  name(o.format), o.longest, o.too_long == TooLong::drop, o.vocabulary, o.held_out),
      files);
}

uint64_t pairs_key(const std::vector<std::string>& files, const Tokenizer& tokenizer, const PairEncoder& encoder,
                   const ChatSetOptions& o) {
  return cache_key(fmt::format("pairs {} {} {} {} {} {} {} {:a}", kChatFormat, tokenizer.fingerprint(), tokenizer.size(),
                               encoder.settings(), o.longest, o.too_long == TooLong::drop, o.vocabulary, o.held_out),
                   files);
}

std::optional<TokenizedFiles> load_tokens(const std::string& folder, uint64_t key, const std::vector<std::string>& files,
                                          const Tokenizer& tokenizer) {
  const std::string path = file_of(folder, key);
  return or_nothing(path, [&]() -> std::optional<TokenizedFiles> {
    const CacheEntry e(path, key, kFormat, {"ids", "ends", "files"});
    TokenizedFiles out{TokenStore(tokenizer.size()), TokenStore(tokenizer.size())};
    if (!out.train.restore(e.parts[0], e.parts[1], e.parts[2], files) ||
        !out.held_out.restore(e.parts[3], e.parts[4], e.parts[5], files))
      return std::nullopt;
    return out;
  });
}

std::optional<ChatSet> load_chats(const std::string& folder, uint64_t key, const std::vector<std::string>& files,
                                  const Tokenizer& tokenizer) {
  const std::string path = file_of(folder, key);
  return or_nothing(path, [&]() -> std::optional<ChatSet> {
    const CacheEntry e(path, key, kChatFormat, {"ids", "ends", "learned", "records", "files"});
    const Json j = parse_json(e.in.metadata().at("counts"), path);
    const ChatCounts c{.records = j.at("records"),
                       .cut = j.at("cut"),
                       .too_long = j.at("too_long"),
                       .without_answer = j.at("without_answer"),
                       .answer_behind = j.at("answer_behind"),
                       .tokens = j.at("tokens"),
                       .learned = j.at("learned"),
                       .first_without_answer = j.value("first_without_answer", "")};
    ChatSet out{ChatStore(tokenizer.size()), ChatStore(tokenizer.size()), c,
                value_named<ChatFormat>(j.at("format").get_ref<const std::string&>()).value()};
    auto bytes = [&](size_t i) {
      return ChatStore::Bytes{e.parts[i], e.parts[i + 1], e.parts[i + 2], e.parts[i + 3], e.parts[i + 4]};
    };
    if (!out.train.restore(bytes(0), files) || !out.held_out.restore(bytes(5), files)) return std::nullopt;
    return out;
  });
}

void save_tokens(const std::string& folder, std::vector<TokensInUse>& tokens) {
  std::set<std::string> wanted;
  for (TokensInUse& t : tokens) {
    std::string path = file_of(folder, t.key);
    wanted.insert(path);
    if (!t.fresh) continue;
    create_folders(folder);
    CacheContents c;
    std::map<std::string, std::string> text{{"format", t.chats ? kChatFormat : kFormat}, {"key", checksum_text(t.key)}};
    if (t.chats) {
      c.add("train", *t.chats, t.files);
      c.add("held_out", *t.held_out_chats, t.files);
      text["counts"] = counts_of(t.counts, t.format).dump();
      c.parts.push_back(std::as_bytes(std::span(text["counts"])));
    } else {
      c.add("train", *t.train);
      c.add("held_out", *t.held_out);
    }
    text["checksum"] = checksum_text(checksum_of_all(c.parts));
    save_safetensors(path, c.tensors, {.metadata = text});
    t.fresh = false;
  }
  // Other runs may use a folder that is linked here.
  std::error_code ignored;
  if (fs::is_symlink(folder, ignored)) return;
  remove_leftovers(folder, is_entry_name);
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (!wanted.count(entry.path().string()) && is_cache_entry(entry)) fs::remove(entry.path(), ignored);
}

}  // namespace ravine

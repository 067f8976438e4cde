#include "data/token_cache.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "files/checksum.h"
#include "files/safetensors.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFormat = "ravine-tokens-1";

std::string file_of(const std::string& folder, uint64_t key) { return (fs::path(folder) / (checksum_text(key) + ".safetensors")).string(); }

std::span<const std::byte> cache_bytes(const std::vector<int64_t>& v) { return std::as_bytes(std::span(v)); }

// Tensors of one store; `files` must live as long as they are used.
void add_tensors(std::vector<TensorBytes>& out, const std::string& name, const TokenStore& store, const std::vector<int64_t>& files) {
  auto add = [&](const std::string& part, DType t, std::span<const std::byte> bytes) {
    out.push_back({name + "." + part, t, {static_cast<int64_t>(bytes.size()) / size_of(t)}, bytes});
  };
  add("ids", DType::u8, store.id_bytes());
  add("ends", DType::i64, cache_bytes(store.ends()));
  add("files", DType::i64, cache_bytes(files));
}

uint64_t checksum_of_all(const std::vector<std::span<const std::byte>>& parts) {
  Checksum sum;
  for (auto p : parts) sum.update(p);
  return sum.value();
}

}  // namespace

uint64_t token_key(const std::vector<std::string>& files, const Tokenizer& tokenizer, const TokenizeOptions& o) {
  std::string text = fmt::format("{} {} {} {} {} {} {:a}", kFormat, tokenizer.fingerprint(), tokenizer.size(), o.append_eos, o.vocabulary,
                                 o.text_key.size(), o.held_out) + o.text_key;
  // The suffix decides how a file is read.
  for (const std::string& f : files) {
    std::string name = fs::path(f).filename().string();
    text += fmt::format(" {}{}", checksum_text(checksum_of_file(f)), name.substr(std::min(name.size(), name.find('.'))));
  }
  return checksum_of(std::as_bytes(std::span(text)));
}

std::optional<TokenizedFiles> load_tokens(const std::string& folder, uint64_t key, const std::vector<std::string>& files, const Tokenizer& tokenizer) {
  std::string path = file_of(folder, key);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  try {
    SafetensorsReader in(path);
    if (in.metadata().at("format") != kFormat || in.metadata().at("key") != checksum_text(key)) return std::nullopt;
    std::vector<std::span<const std::byte>> parts;
    for (const char* name : {"train.ids", "train.ends", "train.files", "held_out.ids", "held_out.ends", "held_out.files"})
      parts.push_back(in.bytes(in.tensor(name)));
    if (in.metadata().at("checksum") != checksum_text(checksum_of_all(parts))) return std::nullopt;
    TokenizedFiles out{TokenStore(tokenizer.size()), TokenStore(tokenizer.size())};
    bool good = out.train.restore(parts[0], parts[1], parts[2], files) && out.held_out.restore(parts[3], parts[4], parts[5], files);
    return good ? std::optional(std::move(out)) : std::nullopt;
  } catch (const std::exception&) {  // damaged or not ours: the text is tokenized anew
    return std::nullopt;
  }
}

void save_tokens(const std::string& folder, std::vector<TokensInUse>& tokens) {
  std::set<std::string> wanted;
  for (TokensInUse& t : tokens) {
    std::string path = file_of(folder, t.key);
    wanted.insert(path);
    if (!t.fresh) continue;
    fs::create_directories(folder);
    std::vector<TensorBytes> tensors;
    std::vector<int64_t> train_files = t.train->file_starts(), held_files = t.held_out->file_starts();
    add_tensors(tensors, "train", *t.train, train_files);
    add_tensors(tensors, "held_out", *t.held_out, held_files);
    std::vector<std::span<const std::byte>> parts;
    for (const TensorBytes& b : tensors) parts.push_back(b.bytes);
    save_safetensors(path, tensors, {.metadata = {{"format", kFormat}, {"key", checksum_text(t.key)}, {"checksum", checksum_text(checksum_of_all(parts))}}});
    t.fresh = false;
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".safetensors" && !wanted.count(entry.path().string())) fs::remove(entry.path(), ignored);
}

}  // namespace ravine

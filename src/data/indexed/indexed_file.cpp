#include "data/indexed/indexed_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "files/file_set.h"

namespace ravine {

namespace {

template <class T>
T load(const std::byte* at, int64_t i = 0) {
  T value;
  std::memcpy(&value, at + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

}  // namespace

int64_t size_of(TokenType t) {
  switch (t) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::i16:
    case TokenType::u16:
      return 2;
    case TokenType::i32:
    case TokenType::f32:
      return 4;
    case TokenType::i64:
    case TokenType::f64:
      return 8;
  }
  fail("token type: 1 to 8, got {}", static_cast<int>(t));
}

const char* name(TokenType t) {
  switch (t) {
    case TokenType::u8:
      return "uint8";
    case TokenType::i8:
      return "int8";
    case TokenType::i16:
      return "int16";
    case TokenType::u16:
      return "uint16";
    case TokenType::i32:
      return "int32";
    case TokenType::f32:
      return "float32";
    case TokenType::i64:
      return "int64";
    case TokenType::f64:
      return "float64";
  }
  fail("token type: 1 to 8, got {}", static_cast<int>(t));
}

TokenType smallest_type(int64_t vocabulary) { return vocabulary < 65500 ? TokenType::u16 : TokenType::i32; }

std::string indexed_journal(const std::string& prefix) { return prefix + ".replacing"; }

FileSetKind indexed_set(const std::string& prefix) {
  const std::string name = prefix.substr(prefix.rfind('/') + 1);
  return {"token files", {name + ".bin", name + ".idx"}};
}

bool is_indexed_prefix(const std::string& path, std::string* prefix) {
  std::string p = path;
  if (p.ends_with(".bin") || p.ends_with(".idx")) p.resize(p.size() - 4);
  std::error_code ec;
  if (!p.empty()) refuse_unfinished(indexed_journal(p));
  if (p.empty() || p.back() == '/' || !std::filesystem::is_regular_file(p + ".idx", ec) ||
      !std::filesystem::is_regular_file(p + ".bin", ec))
    return false;
  if (prefix) *prefix = p;
  return true;
}

std::string near_indexed_prefix(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path given = path;
  const std::string begin = given.filename().string() + "_";
  std::error_code error;
  std::string found;
  for (auto it = fs::directory_iterator(given.has_parent_path() ? given.parent_path() : fs::path("."), error);
       !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string file = it->path().filename().string();
    const std::string prefix = ((given.has_parent_path() ? given.parent_path() : fs::path()) /
                                file.substr(0, file.size() - std::min<size_t>(4, file.size())))
                                   .string();
    if (begin.size() > 1 && file.starts_with(begin) && file.ends_with("_document.idx") && is_indexed_prefix(prefix) &&
        (found.empty() || prefix < found))
      found = prefix;
  }
  return found;
}

std::vector<std::string> indexed_prefixes_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> prefixes;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator() && prefixes.size() < 100;
       it.increment(error))
    if (std::string prefix; it->path().extension() == ".idx" && is_indexed_prefix(it->path().string(), &prefix))
      prefixes.push_back(prefix);
  std::sort(prefixes.begin(), prefixes.end());
  return prefixes;
}

std::string indexed_prefix_advice(const std::string& path) {
  const std::string near = near_indexed_prefix(path);
  return near.empty() ? "check the path, or make them with ravine preprocess" : "did you mean '" + near + "'?";
}

void IndexedFile::refuse(const std::string& what, const std::string& rule) const {
  throw UserError(what, prefix_ + ".idx", rule, "make it again with ravine preprocess, or fetch it again");
}

IndexedFile::IndexedFile(std::string prefix) : prefix_(std::move(prefix)) {
  refuse_unfinished(indexed_journal(prefix_));
  idx_ = MappedFile(prefix_ + ".idx");
  bin_ = MappedFile(prefix_ + ".bin");
  const std::byte* at = idx_.bytes().data();
  const auto size = static_cast<int64_t>(idx_.bytes().size());
  if (size >= 8 && std::memcmp(at, "TNTIDX\0\0", 8) == 0)
    refuse("old kind of index", "it is of the 'lazy' or 'cached' kind, only 'mmap' (MMIDIDX) is read");
  if (size < kIndexHeader || std::memcmp(at, kIndexMagic, 9) != 0)
    refuse("not an index of tokens", "it must begin with MMIDIDX and hold at least 34 bytes");
  if (uint64_t version = load<uint64_t>(at + 9); version != 1)
    refuse("unknown version of index", fmt::format("it must be 1, got {}", version));
  const auto code = load<uint8_t>(at + 17);
  if (code < 1 || code > 8) refuse("unknown type of tokens", fmt::format("the code must be 1 to 8, got {}", code));
  type_ = static_cast<TokenType>(code);
  width_ = size_of(type_);
  const uint64_t n = load<uint64_t>(at + 18), d = load<uint64_t>(at + 26);
  const auto most = static_cast<uint64_t>(size);
  if (n > most / 12 || d > most / 8 || d < 1)
    refuse("index lies about its size",
           fmt::format("{} sequences and {} document entries do not fit into {} bytes", n, d, size));
  sequences_ = static_cast<int64_t>(n);
  entries_ = static_cast<int64_t>(d);
  const int64_t wanted = kIndexHeader + 12 * sequences_ + 8 * entries_;
  if (size != wanted && size != wanted + sequences_)
    refuse("index lies about its size",
           fmt::format("{} sequences and {} document entries take {} bytes ({} with modes), it has {}", n, d, wanted,
                       wanted + sequences_, size));
  lengths_ = at + kIndexHeader;
  offsets_ = lengths_ + 4 * sequences_;
  documents_ = offsets_ + 8 * sequences_;
  if (size > wanted) modes_ = documents_ + 8 * entries_;

  if (int64_t first = load<int64_t>(documents_); first != 0)
    refuse("wrong index", fmt::format("the first document must begin at sequence 0, got {}", first));
  if (int64_t last = load<int64_t>(documents_, entries_ - 1); last != sequences_)
    refuse("index is not finished", fmt::format("the last document must end after sequence {}, got {}", sequences_, last));
  int64_t end = 0;
  if (sequences_ > 0) {
    const int64_t offset = load<int64_t>(offsets_, sequences_ - 1), bytes = load<int32_t>(lengths_, sequences_ - 1) * width_;
    if (offset < 0 || bytes < 0 || __builtin_add_overflow(offset, bytes, &end))
      refuse("wrong index", "the last sequence has a negative place or length");
  }
  if (auto have = static_cast<int64_t>(bin_.bytes().size()); end != have)
    throw UserError(have < end ? "token file is cut short" : "token file does not belong to its index", prefix_ + ".bin",
                    fmt::format("the index needs {} bytes of {}, it has {}", end, name(type_), have),
                    "fetch or make both files again");
}

void IndexedFile::in_range(int64_t sequence) const {
  require(sequence >= 0 && sequence < sequences_, "index: sequence is 0 to {}, got {}", sequences_ - 1, sequence);
}

int64_t IndexedFile::length(int64_t sequence) const {
  in_range(sequence);
  const int64_t n = load<int32_t>(lengths_, sequence);
  if (n < 0) refuse("wrong index", fmt::format("sequence {} has the length {}", sequence, n));
  return n;
}

int64_t IndexedFile::begin(int64_t sequence) const {
  in_range(sequence);
  const int64_t at = load<int64_t>(offsets_, sequence);
  if (at < 0 || at % width_ != 0 || at / width_ > tokens())
    refuse("wrong index", fmt::format("sequence {} begins at byte {} of {}", sequence, at, bin_.bytes().size()));
  return at / width_;
}

int64_t IndexedFile::document_begin(int64_t document) const {
  require(document >= 0 && document < entries_, "index: document is 0 to {}, got {}", entries_ - 1, document);
  const int64_t at = load<int64_t>(documents_, document);
  if (at < 0 || at > sequences_)
    refuse("wrong index", fmt::format("document {} begins at sequence {} of {}", document, at, sequences_));
  return at;
}

int8_t IndexedFile::mode(int64_t sequence) const {
  in_range(sequence);
  return modes_ ? load<int8_t>(modes_, sequence) : int8_t{0};
}

std::span<const std::byte> IndexedFile::bytes(int64_t sequence) const {
  const int64_t at = begin(sequence), n = length(sequence);
  if (n > tokens() - at) refuse("wrong index", fmt::format("sequence {} ends behind the end of the token file", sequence));
  return bin_.bytes().subspan(static_cast<size_t>(at * width_), static_cast<size_t>(n * width_));
}

std::span<const std::byte> IndexedFile::lengths(int64_t first, int64_t last) const {
  require(first >= 0 && first <= last && last <= sequences_, "index: sequences {} to {} of {}", first, last, sequences_);
  const std::span part(lengths_ + 4 * first, static_cast<size_t>(4 * (last - first)));
  idx_.will_read(part);
  return part;
}

void IndexedFile::copy(int64_t sequence, int64_t offset, std::span<int32_t> into) const {
  const auto have = static_cast<int64_t>(bytes(sequence).size()) / width_, n = static_cast<int64_t>(into.size());
  require(offset >= 0 && offset <= have && n <= have - offset, "index: tokens {} to {} of {}", offset, offset + n, have);
  copy_range(begin(sequence) + offset, into);
}

void IndexedFile::copy_range(int64_t begin, std::span<int32_t> into) const {
  const auto n = static_cast<int64_t>(into.size());
  require(begin >= 0 && begin <= tokens() && n <= tokens() - begin, "index: tokens {} to {} of {}", begin, begin + n, tokens());
  const std::byte* at = bin_.bytes().data() + begin * width_;
  auto plain = [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i)
      into[static_cast<size_t>(i)] = static_cast<int32_t>(load<T>(at, i));  // NOLINT(bugprone-signed-char-misuse): a number
  };
  switch (type_) {
    case TokenType::u8:
      return plain(uint8_t{});
    case TokenType::i8:
      return plain(int8_t{});
    case TokenType::i16:
      return plain(int16_t{});
    case TokenType::u16:
      return plain(uint16_t{});
    case TokenType::i32:
      if (n > 0) std::memcpy(into.data(), at, static_cast<size_t>(4 * n));
      return;
    case TokenType::i64:
      for (int64_t i = 0; i < n; ++i) {
        const int64_t id = load<int64_t>(at, i);
        if (id < INT32_MIN || id > INT32_MAX)
          throw UserError(fmt::format("token {} is beyond any vocabulary", id), prefix_ + ".bin",
                          fmt::format("token {} of the file: ids fit into 32 bits", begin + i), "make the file again");
        into[static_cast<size_t>(i)] = static_cast<int32_t>(id);
      }
      return;
    case TokenType::f32:
    case TokenType::f64:
      break;
  }
  throw UserError("not token ids", prefix_ + ".idx", fmt::format("the file holds {}, ids are whole numbers", name(type_)),
                  "name another file");
}

void IndexedFile::check() const {
  idx_.will_read(idx_.bytes());
  for (int64_t d = 0; d + 1 < entries_; ++d)
    if (document_begin(d) > document_begin(d + 1))
      refuse("wrong index", fmt::format("document {} of {} must not end before it begins", d + 1, documents()));
  // Every sequence begins at the end of the previous one. Neighbours are compared, so that the loop has no running sum.
  // The constructor has checked the last one.
  constexpr int64_t kBlock = 1 << 14;
  auto wrong = [&](int64_t i) {
    const int64_t n = load<int32_t>(lengths_, i), begins = load<int64_t>(offsets_, i),
                  next = i + 1 < sequences_ ? load<int64_t>(offsets_, i + 1) : begins + n * width_;
    return (i == 0 && begins != 0) || n < 0 ||
           next != static_cast<int64_t>(static_cast<uint64_t>(begins) + static_cast<uint64_t>(n * width_));
  };
  for (int64_t from = 0; from < sequences_; from += kBlock) {
    const int64_t to = std::min(from + kBlock, sequences_);
    uint64_t bad = 0;
    for (int64_t i = from; i + 1 < to; ++i) {
      const int64_t n = load<int32_t>(lengths_, i);
      bad |= (static_cast<uint64_t>(load<int64_t>(offsets_, i + 1)) - static_cast<uint64_t>(load<int64_t>(offsets_, i))) ^
             static_cast<uint64_t>(n * width_);
      bad |= static_cast<uint64_t>(n) >> 63;
    }
    if (bad == 0 && !wrong(from) && !wrong(to - 1)) continue;
    int64_t i = from;
    while (!wrong(i)) ++i;
    int64_t d = 0;
    while (d + 1 < documents() && document_begin(d + 1) <= i) ++d;
    refuse("wrong index",
           fmt::format("sequence {} (document {} of {}) begins at byte {} and has {} tokens of {} bytes, {}", i + 1, d + 1,
                       documents(), load<int64_t>(offsets_, i), load<int32_t>(lengths_, i), width_,
                       i == 0 && load<int64_t>(offsets_, 0) != 0 ? "and the first begins at byte 0"
                       : i + 1 < sequences_ ? fmt::format("but the next begins at byte {}", load<int64_t>(offsets_, i + 1))
                                            : "and the file ends elsewhere"));
  }
}

}  // namespace ravine

#include "files/mindspore_ckpt.h"

#include <algorithm>
#include <cerrno>
#include <optional>

namespace ravine {
namespace {

[[noreturn]] void refuse_ckpt(const std::string& where, const std::string& rule) {
  throw UserError("bad MindSpore checkpoint", where, rule, "save the file again");
}

// One protobuf message: fields by number, each with its bytes or its number.
class Message {
 public:
  Message(std::span<const std::byte> file, uint64_t begin, uint64_t end, const std::string& where)
      : file_(file), at_(begin), end_(end), where_(where) {}
  struct Field {
    uint64_t number = 0, value = 0;  // of a varint
    uint64_t begin = 0, size = 0;    // of bytes
    bool is_bytes = false;
  };
  bool done() const { return at_ >= end_; }
  uint64_t at() const { return at_; }
  uint64_t varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ >= end_) refuse_ckpt(where_, fmt::format("it ends inside a number at byte {}", at_));
      const auto b = std::to_integer<uint64_t>(file_[at_++]);
      v |= (b & 0x7f) << shift;
      if (!(b & 0x80)) return v;
    }
    refuse_ckpt(where_, fmt::format("a number at byte {} is too long", at_));
  }
  Field next() {
    Field f;
    const uint64_t key = varint();
    f.number = key >> 3;
    switch (key & 7) {
      case 0:
        f.value = varint();
        return f;
      case 1:
        f.size = 8;
        break;
      case 2:
        f.size = varint();
        f.is_bytes = true;
        break;
      case 5:
        f.size = 4;
        break;
      default:
        refuse_ckpt(where_, fmt::format("byte {} begins no field of a protobuf message", at_));
    }
    if (f.size > end_ - at_)
      refuse_ckpt(where_,
                  fmt::format("a field of {} bytes at byte {} leaves its message, which ends at {}", f.size, at_, end_));
    f.begin = at_;
    at_ += f.size;
    return f;
  }

 private:
  std::span<const std::byte> file_;
  uint64_t at_, end_;
  const std::string& where_;
};

std::string_view text(std::span<const std::byte> file, const Message::Field& f) {
  return {reinterpret_cast<const char*>(file.data()) + f.begin, f.size};
}

std::optional<DType> type_of(std::string_view name) {
  static constexpr std::pair<std::string_view, DType> table[] = {
      {"Float32", DType::f32}, {"Float16", DType::f16}, {"BFloat16", DType::bf16}, {"Float64", DType::f64},
      {"Int64", DType::i64},   {"Int32", DType::i32},   {"Int16", DType::i16},     {"Int8", DType::i8},
      {"UInt8", DType::u8},    {"Bool", DType::boolean}};
  for (const auto& [key, type] : table)
    if (name == key) return type;
  return {};
}

}  // namespace

std::vector<CkptTensor> parse_ckpt(std::span<const std::byte> file, const std::string& where) {
  std::vector<CkptTensor> out;
  std::unordered_map<std::string, size_t> by_name;
  Message all(file, 0, file.size(), where);
  while (!all.done()) {
    // A checksum may follow the message.
    if (const std::string_view rest(reinterpret_cast<const char*>(file.data()) + all.at(), file.size() - all.at());
        rest.size() <= 32 && rest.starts_with("crc_num"))
      break;
    const Message::Field entry = all.next();
    if (entry.number != 1 || !entry.is_bytes)
      refuse_ckpt(where, fmt::format("it holds entries of field 1, got field {}", entry.number));
    Message value(file, entry.begin, entry.begin + entry.size, where);
    std::string name;
    std::optional<Message::Field> tensor;
    while (!value.done()) {
      const Message::Field f = value.next();
      if (f.number == 1 && f.is_bytes) name = text(file, f);
      if (f.number == 2 && f.is_bytes) tensor = f;
      if (f.number == 3) refuse_ckpt(fmt::format("{}: '{}'", where, printable(name)), "tables of hash maps are not supported");
    }
    if (name.empty() || name.size() > 1000) refuse_ckpt(where, "each entry has a name of at most 1000 bytes");
    const std::string here = fmt::format("{}: tensor '{}'", where, printable(name));
    if (!tensor) refuse_ckpt(here, "an entry holds a tensor");
    Message body(file, tensor->begin, tensor->begin + tensor->size, where);
    CkptTensor t{.name = name};
    std::string type;
    int dims = 0;
    std::optional<Message::Field> content;
    auto dim = [&](uint64_t v) {
      if (v > uint64_t{1} << 48 || ++dims > 5) refuse_ckpt(here, "a shape has at most 5 sizes of at most 2^48");
      t.shape.push_back(static_cast<int64_t>(v));
    };
    while (!body.done()) {
      const Message::Field f = body.next();
      if (f.number == 1 && !f.is_bytes) dim(f.value);
      if (f.number == 1 && f.is_bytes)
        for (Message packed(file, f.begin, f.begin + f.size, where); !packed.done();) dim(packed.varint());
      if (f.number == 2 && f.is_bytes) type = text(file, f);
      if (f.number == 3 && f.is_bytes) content = f;
    }
    if (type == "Str") continue;
    const auto dtype = type_of(type);
    if (!dtype) refuse_ckpt(here, fmt::format("its type '{}' is not known", printable(type)));
    t.dtype = *dtype;
    auto [it, fresh] = by_name.emplace(name, out.size());
    if (fresh) out.push_back(t);
    CkptTensor& whole = out[it->second];
    if (whole.dtype != t.dtype || !(whole.shape == t.shape)) refuse_ckpt(here, "its pieces have two shapes or types");
    if (content) whole.pieces.emplace_back(content->begin, content->size);
  }
  for (const CkptTensor& t : out) {
    int64_t bytes = size_of(t.dtype), held = 0;
    for (int64_t s : t.shape)
      if (__builtin_mul_overflow(bytes, s, &bytes))
        refuse_ckpt(fmt::format("{}: tensor '{}'", where, printable(t.name)),
                    fmt::format("shape {} is too large", t.shape.text()));
    for (const auto& p : t.pieces) held += p.second;
    if (held != bytes)
      refuse_ckpt(fmt::format("{}: tensor '{}'", where, printable(t.name)),
                  fmt::format("shape {} of {} takes {} bytes, the file holds {}", t.shape.text(), name(t.dtype), bytes, held));
  }
  return out;
}

CkptFile::CkptFile(std::string path) : path_(std::move(path)) {
  fd_ = open_to_read(path_, &file_size_);
  mapped_ = MappedFile(path_, fd_, file_size_, MappedFile::Use::any);
  map_ = mapped_.bytes().data();
  tensors_ = parse_ckpt({map_, static_cast<size_t>(file_size_)}, path_);
  for (const CkptTensor& t : tensors_) {
    by_name_.emplace(t.name, infos_.size());
    infos_.push_back({t.name, t.dtype, t.shape, 0, t.shape.count() * size_of(t.dtype)});
  }
}

CkptFile::~CkptFile() = default;

const TensorInfo* CkptFile::find(std::string_view name) const {
  auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : &infos_[it->second];
}

void CkptFile::read(const TensorInfo& t, int64_t offset, std::span<std::byte> into) const {
  for (const auto& [begin, size] : tensors_[index(t)].pieces) {
    if (into.empty()) return;
    if (offset >= size) {
      offset -= size;
      continue;
    }
    const int64_t n = std::min(size - offset, static_cast<int64_t>(into.size()));
    read_all_at(*fd_, begin + offset, into.first(static_cast<size_t>(n)), path_);
    into = into.subspan(static_cast<size_t>(n));
    offset = 0;
  }
  require(into.empty(), "CkptFile::read: '{}' has {} bytes", printable(t.name), t.end);
}

std::span<const std::byte> CkptFile::bytes(const TensorInfo& t) const {
  const auto& pieces = tensors_[index(t)].pieces;
  if (pieces.size() == 1) return {map_ + pieces[0].first, static_cast<size_t>(pieces[0].second)};
  std::lock_guard lock(copying_);
  std::vector<std::byte>& copy = copies_[index(t)];
  if (copy.empty()) {
    copy.resize(static_cast<size_t>(t.end));
    read(t, 0, copy);
  }
  return copy;
}

}  // namespace ravine

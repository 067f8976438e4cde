#include "files/mindspore_ckpt.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "files/protobuf.h"

namespace ravine {
namespace {

[[noreturn]] void refuse_ckpt(const std::string& where, const std::string& rule) {
  throw UserError("bad MindSpore checkpoint", where, rule, "save the file again");
}

using Wire = ProtobufField::Wire;

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
  const char* begin = reinterpret_cast<const char*>(file.data());
  ProtobufMessage all({begin, file.size()}, where, refuse_ckpt);
  while (!all.left().empty()) {
    // The message may be followed by a checksum.
    if (all.left().size() <= 32 && all.left().starts_with("crc_num")) break;
    const ProtobufField entry = *all.next();
    if (entry.number != 1 || entry.wire != Wire::bytes)
      refuse_ckpt(where, fmt::format("it holds entries of field 1, got field {}", entry.number));
    ProtobufMessage value = all.in(entry);
    std::string name;
    std::optional<ProtobufField> tensor;
    while (const auto f = value.next()) {
      if (f->number == 1 && f->wire == Wire::bytes) name = f->bytes;
      if (f->number == 2 && f->wire == Wire::bytes) tensor = f;
      if (f->number == 3) refuse_ckpt(fmt::format("{}: '{}'", where, printable(name)), "tables of hash maps are not supported");
    }
    if (name.empty() || name.size() > 1000) refuse_ckpt(where, "each entry has a name of at most 1000 bytes");
    const std::string here = fmt::format("{}: tensor '{}'", where, printable(name));
    if (!tensor) refuse_ckpt(here, "an entry holds a tensor");
    ProtobufMessage body = value.in(*tensor);
    CkptTensor t{.name = name};
    std::string type;
    int dims = 0;
    std::optional<std::string_view> content;
    auto dim = [&](uint64_t v) {
      if (v > uint64_t{1} << 48 || ++dims > 5) refuse_ckpt(here, "a shape has at most 5 sizes of at most 2^48");
      t.shape.push_back(static_cast<int64_t>(v));
    };
    while (const auto f = body.next()) {
      if (f->number == 1 && f->wire == Wire::varint) dim(f->value);
      if (f->number == 1 && f->wire == Wire::bytes)
        for (ProtobufMessage packed = body.in(*f); !packed.left().empty();) dim(packed.varint());
      if (f->number == 2 && f->wire == Wire::bytes) type = f->bytes;
      if (f->number == 3 && f->wire == Wire::bytes) content = f->bytes;
    }
    if (type == "Str") continue;
    const auto dtype = type_of(type);
    if (!dtype) refuse_ckpt(here, fmt::format("its type '{}' is not known", printable(type)));
    t.dtype = *dtype;
    auto [it, fresh] = by_name.emplace(name, out.size());
    if (fresh) out.push_back(t);
    CkptTensor& whole = out[it->second];
    if (whole.dtype != t.dtype || !(whole.shape == t.shape)) refuse_ckpt(here, "its pieces have two shapes or types");
    if (content) whole.pieces.emplace_back(content->data() - begin, content->size());
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

namespace {

constexpr int64_t kMostOfEntry = int64_t{512} << 20;

std::string varint_text(uint64_t v) {
  std::string out;
  for (; v >= 128; v >>= 7) out += static_cast<char>((v & 127) | 128);
  return out + static_cast<char>(v);
}
// Returns the key and the length of a field of bytes.
std::string field_head(int number, int64_t bytes) {
  return varint_text((static_cast<uint64_t>(number) << 3) | 2) + varint_text(static_cast<uint64_t>(bytes));
}

std::string name_of(DType type, const std::string& where) {
  static constexpr std::pair<const char*, DType> kWritten[] = {{"Float32", DType::f32},   {"Float16", DType::f16},
                                                               {"BFloat16", DType::bf16}, {"Float64", DType::f64},
                                                               {"Int64", DType::i64},     {"Int32", DType::i32}};
  for (const auto& [text, known] : kWritten)
    if (known == type) return text;
  fail("{}: no tensor of {} in a MindSpore checkpoint", where, ravine::name(type));
}

}  // namespace

CkptWriter::CkptWriter(const std::string& path) : file_(path), where_(path) {}

void CkptWriter::begin(const std::string& name, DType dtype, const Shape& shape) {
  require(left_ == 0, "{}: {} lacks {} bytes", where_, name_, left_);
  name_ = name, dtype_ = dtype, shape_ = shape;
  left_ = shape.count() * size_of(dtype);
  entry(std::min(left_, kMostOfEntry));
}

void CkptWriter::entry(int64_t bytes) {
  std::string body;  // the tensor's message, up to its content
  for (int d = 0; d < shape_.rank(); ++d) body += varint_text(1 << 3) + varint_text(static_cast<uint64_t>(shape_[d]));
  const std::string type = name_of(dtype_, where_);
  body += field_head(2, static_cast<int64_t>(type.size())) + type + field_head(3, bytes);
  const std::string tag = field_head(1, static_cast<int64_t>(name_.size())) + name_;
  const std::string tensor = field_head(2, static_cast<int64_t>(body.size()) + bytes);
  file_.write(field_head(1, static_cast<int64_t>(tag.size() + tensor.size() + body.size()) + bytes) + tag + tensor + body);
  entry_left_ = bytes;
}

void CkptWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    require(left_ > 0, "{}: {} gets more bytes than it has", where_, name_);
    if (entry_left_ == 0) entry(std::min(left_, kMostOfEntry));
    const auto n = static_cast<size_t>(std::min<int64_t>(entry_left_, static_cast<int64_t>(bytes.size())));
    file_.write(bytes.first(n));
    bytes = bytes.subspan(n);
    entry_left_ -= static_cast<int64_t>(n), left_ -= static_cast<int64_t>(n);
  }
}

void CkptWriter::commit() {
  require(left_ == 0, "{}: {} lacks {} bytes", where_, name_, left_);
  file_.commit();
}

}  // namespace ravine

#include "files/npy.h"

#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "files/safetensors.h"

namespace ravine {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Code {
  DType dtype;
  std::string_view text;
};
constexpr std::array<Code, 9> kCodes{{{DType::f64, "<f8"},
                                      {DType::f32, "<f4"},
                                      {DType::f16, "<f2"},
                                      {DType::i64, "<i8"},
                                      {DType::i32, "<i4"},
                                      {DType::i16, "<i2"},
                                      {DType::i8, "|i1"},
                                      {DType::u8, "|u1"},
                                      {DType::boolean, "|b1"}}};

[[noreturn]] void refuse_npy(const std::string& where, const std::string& rule) {
  throw UserError("cannot read .npy file", where, rule, "save it again with numpy.save");
}

// Reads the header, a literal of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Literal {
 public:
  Literal(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  void parse(NpyArray& array) {
    bool has_type = false, has_order = false, has_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !has_type) {
        has_type = true;
        array.dtype = dtype();
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        if (word("True")) refuse_npy(where_, "Fortran order is not supported");
        if (!word("False")) refuse_npy(where_, "fortran_order must be True or False");
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        shape(array.shape);
      } else {
        refuse_npy(where_, fmt::format("unknown or repeated header field '{}'", printable(key)));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!has_type || !has_order || !has_shape) refuse_npy(where_, "the header must hold descr, fortran_order and shape");
    space();
    if (at_ != text_.size()) refuse_npy(where_, "the header must end after its '}'");
  }

 private:
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse_npy(where_, fmt::format("the header needs '{}' at byte {}", c, at_));
  }
  bool word(std::string_view w) {
    space();
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  std::string_view quoted() {
    space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') refuse_npy(where_, fmt::format("the header needs a plain string at byte {}", at_));
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) refuse_npy(where_, "a string in the header does not end");
    std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  DType dtype() {
    std::string_view code = quoted();
    for (const Code& c : kCodes)
      // A type of one byte has no byte order: NumPy writes '|', other programs '<' or '='.
      if (code == c.text || (c.text[0] == '|' && code.size() == 3 && code.substr(1) == c.text.substr(1))) return c.dtype;
    refuse_npy(where_, fmt::format("type '{}' is not supported (f8 f4 f2 i8 i4 i2 i1 u1 b1, little-endian)", printable(code)));
  }
  void shape(Shape& s) {
    expect('(');
    while (!take(')')) {
      space();
      int64_t value = 0;
      const size_t from = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
          refuse_npy(where_, "a size in the shape is too large");
      if (at_ == from) refuse_npy(where_, fmt::format("the shape needs a number at byte {}", at_));
      if (s.rank() == 5) refuse_npy(where_, "at most 5 dims are supported");
      s.push_back(value);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

// Parses the header and returns its size, the offset of the data. `file` has the whole header, or the whole file if
// shorter.
size_t parse_header(std::span<const std::byte> file, const std::string& where, NpyArray& array) {
  const char* text = reinterpret_cast<const char*>(file.data());
  if (file.size() < 10 || std::memcmp(text, kMagic.data(), kMagic.size()) != 0)
    refuse_npy(where, "it must begin with the magic of NumPy");
  const int version = std::to_integer<int>(file[6]);
  if (version < 1 || version > 3) refuse_npy(where, fmt::format("versions 1 to 3 are supported, got {}", version));
  const size_t before = version == 1 ? 10 : 12;
  if (file.size() < before) refuse_npy(where, "it is truncated");
  size_t length = 0;
  for (size_t i = before; i-- > 8;) length = (length << 8) | std::to_integer<size_t>(file[i]);
  if (length > file.size() - before)
    refuse_npy(where, fmt::format("it is truncated or its header of {} bytes is too long", length));
  Literal({text + before, length}, where).parse(array);
  return before + length;
}

int64_t data_size(const NpyArray& array, int64_t have, const std::string& where) {
  int64_t bytes = size_of(array.dtype);
  for (int64_t s : array.shape)
    if (__builtin_mul_overflow(bytes, s, &bytes)) refuse_npy(where, fmt::format("shape {} is too large", array.shape.text()));
  if (bytes != have)
    refuse_npy(where, fmt::format("shape {} of {} takes {} bytes, the file holds {}", array.shape.text(), name(array.dtype),
                                  bytes, have));
  return bytes;
}

}  // namespace

void write_npy(const std::string& path, DType dtype, const Shape& shape, std::span<const std::byte> bytes,
               const MayReplace& check) {
  std::optional<std::string_view> code;
  for (const Code& c : kCodes)
    if (c.dtype == dtype) code = c.text;
  require(code.has_value(), "write_npy: NumPy must know the type, got {}", name(dtype));
  write_npy(path, *code, size_of(dtype), shape, bytes, check);
}

std::string npy_header(std::string_view code, const Shape& shape) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", code,
                                 fmt::join(shape.begin(), shape.end(), ", "), shape.rank() == 1 ? "," : "");
  text.resize(static_cast<size_t>(round_up(10 + static_cast<int64_t>(text.size()) + 1, 64) - 11), ' ');
  text += '\n';
  return std::string(kMagic) + std::string{1, 0, static_cast<char>(text.size()), static_cast<char>(text.size() >> 8)} + text;
}

void write_npy(const std::string& path, std::string_view code, int64_t width, const Shape& shape,
               std::span<const std::byte> bytes, const MayReplace& check) {
  require(static_cast<int64_t>(bytes.size()) == mul_checked(shape.count(), width),
          "write_npy: {} of '{}' has other than the {} bytes given", shape.text(), code, bytes.size());
  AtomicFile file(path);
  file.write(npy_header(code, shape));
  file.write(bytes);
  file.commit(check);
}

NpyArray parse_npy(std::span<const std::byte> file, const std::string& where) {
  NpyArray array;
  const size_t begin = parse_header(file, where, array);
  data_size(array, static_cast<int64_t>(file.size() - begin), where);
  array.bytes.assign(file.begin() + static_cast<ptrdiff_t>(begin), file.end());
  return array;
}

namespace {

// Returns the array without its bytes; sets their offset and number.
NpyArray open_npy(const Fd& fd, int64_t size, const std::string& path, int64_t& begin, int64_t& bytes) {
  NpyArray array;
  std::vector<std::byte> head(static_cast<size_t>(std::min<int64_t>(size, 1 << 20)));
  read_all_at(*fd, 0, head, path);
  begin = static_cast<int64_t>(parse_header(head, path, array));
  bytes = data_size(array, size - begin, path);
  return array;
}

}  // namespace

NpyArray read_npy_header(const std::string& path) {
  int64_t size, begin, bytes;
  const Fd fd = open_to_read(path, &size);
  return open_npy(fd, size, path, begin, bytes);
}

NpyArray read_npy(const std::string& path) {
  int64_t size, begin, bytes;
  const Fd fd = open_to_read(path, &size);
  NpyArray array = open_npy(fd, size, path, begin, bytes);
  array.bytes.resize(static_cast<size_t>(bytes));
  read_all_at(*fd, begin, array.bytes, path);
  return array;
}

}  // namespace ravine

// Messages of protocol buffers, field by field. Source: protobuf.dev/programming-guides/encoding.
// Untrusted input: a text that is no message is refused as the file that holds it says.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ravine {

struct ProtobufField {
  enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  uint64_t number = 0, value = 0;  // value: of all but bytes, little-endian
  std::string_view bytes;          // of all but varints, in place
  Wire wire = Wire::varint;
};

class ProtobufMessage {
 public:
  using Refuse = void (*)(const std::string& where, const std::string& rule);  // throws

  // `where` lives as long as the message and those in it; places in rules are counted from the beginning of `bytes`.
  ProtobufMessage(std::string_view bytes, const std::string& where, Refuse refuse)
      : left_(bytes), begin_(bytes.data()), where_(where), refuse_(refuse) {}
  ProtobufMessage in(const ProtobufField& field) const;  // a message, or packed numbers, in this one

  std::optional<ProtobufField> next();             // none at the end
  uint64_t varint();                               // the next of packed numbers
  std::string_view left() const { return left_; }  // what was not read yet

 private:
  [[noreturn]] void refuse(const std::string& rule) const;
  int64_t at() const { return left_.data() - begin_; }
  std::string_view left_;
  const char* begin_;
  const std::string& where_;
  Refuse refuse_;
};

}  // namespace ravine

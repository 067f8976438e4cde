// Messages of protocol buffers, parsed field by field. Source: protobuf.dev/programming-guides/encoding.
// A file is untrusted input: bytes that are no message are refused by the function `Refuse`, with the error of the
// file's format.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ravine {

// A field of a protocol buffers message, as ProtobufMessage::next returns it.
struct ProtobufField {
  enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  uint64_t number = 0, value = 0;  // value: of varint and fixed fields (little-endian)
  std::string_view bytes;          // bytes of all fields but varints, not copied
  Wire wire = Wire::varint;
};

class ProtobufMessage {
 public:
  using Refuse = void (*)(const std::string& where, const std::string& rule);  // throws the error of the file's format

  // Reads a message from `bytes`. `where` names the file in errors; it must outlive this message and all inner ones.
  // `refuse` throws the errors. Offsets in errors count from the beginning of `bytes`.
  ProtobufMessage(std::string_view bytes, const std::string& where, Refuse refuse)
      : left_(bytes), begin_(bytes.data()), where_(where), refuse_(refuse) {}
  ProtobufMessage in(
      const ProtobufField& field) const;  // returns a reader of the message, or of the packed numbers, in `field`

  std::optional<ProtobufField> next();             // returns the next field; nothing at the end
  uint64_t varint();                               // returns the next packed number
  std::string_view left() const { return left_; }  // bytes not read yet

 private:
  [[noreturn]] void refuse(const std::string& rule) const;
  int64_t at() const { return left_.data() - begin_; }
  std::string_view left_;
  const char* begin_;
  const std::string& where_;
  Refuse refuse_;
};

}  // namespace ravine

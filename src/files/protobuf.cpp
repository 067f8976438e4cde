#include "files/protobuf.h"

#include <fmt/format.h>

#include "base/error.h"

namespace ravine {

void ProtobufMessage::refuse(const std::string& rule) const {
  refuse_(where_, rule);
  fail("ProtobufMessage: a refusal throws");
}

ProtobufMessage ProtobufMessage::in(const ProtobufField& field) const {
  ProtobufMessage m(field.bytes, where_, refuse_);
  if (field.bytes.data()) m.begin_ = begin_;
  return m;
}

uint64_t ProtobufMessage::varint() {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (left_.empty()) refuse(fmt::format("it ends inside a number at byte {}", at()));
    const auto b = static_cast<uint8_t>(left_[0]);
    left_.remove_prefix(1);
    v |= static_cast<uint64_t>(b & 0x7f) << shift;
    if (b < 0x80) return v;
  }
  refuse(fmt::format("a number at byte {} is too long", at()));
}

std::optional<ProtobufField> ProtobufMessage::next() {
  if (left_.empty()) return {};
  const int64_t begin = at();
  const uint64_t key = varint();
  ProtobufField f{.number = key >> 3, .wire = static_cast<ProtobufField::Wire>(key & 7)};
  uint64_t size = 0;
  switch (f.wire) {
    case ProtobufField::Wire::varint:
      f.value = varint();
      break;
    case ProtobufField::Wire::fixed64:
      size = 8;
      break;
    case ProtobufField::Wire::bytes:
      size = varint();
      break;
    case ProtobufField::Wire::fixed32:
      size = 4;
      break;
    default:
      refuse(fmt::format("byte {} begins no field of a protobuf message", begin));
  }
  if (f.number == 0) refuse(fmt::format("byte {} begins no field of a protobuf message", begin));
  if (f.wire == ProtobufField::Wire::varint) return f;
  if (size > left_.size())
    refuse(fmt::format("a field of {} bytes at byte {} leaves its message, which ends at {}", size, at(),
                       at() + static_cast<int64_t>(left_.size())));
  f.bytes = left_.substr(0, size);
  left_.remove_prefix(size);
  if (f.wire != ProtobufField::Wire::bytes)
    for (size_t i = size; i-- > 0;) f.value = f.value << 8 | static_cast<uint8_t>(f.bytes[i]);
  return f;
}

}  // namespace ravine

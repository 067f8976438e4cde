// Fields of every wire type, messages in messages, packed numbers, and texts that are no message.
#include <gtest/gtest.h>

#include "base/error.h"
#include "files/protobuf.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_files_protobuf {

using Wire = ProtobufField::Wire;
const std::string kHere = "here";

void refuse(const std::string& where, const std::string& rule) { throw UserError("bad message", where, rule, "replace it"); }

ProtobufMessage message(std::string_view bytes) { return {bytes, kHere, refuse}; }

TEST(Protobuf, FieldsOfEachType) {
  const std::string inner("\x0a\x02\x96\x01", 4);  // two bytes: packed, the number 150
  const std::string text = "\x08\x96\x01" + std::string("\x11\1\0\0\0\0\0\0\x80", 9) + "\x1a" + std::string(1, 4) + inner +
                           std::string("\x25\0\0\x80\x3f", 5) + std::string("\xfa\xff\xff\xff\x0f\0", 6);
  ProtobufMessage m = message(text);
  auto f = m.next();
  EXPECT_TRUE(f->number == 1 && f->wire == Wire::varint && f->value == 150);
  f = m.next();
  EXPECT_TRUE(f->number == 2 && f->wire == Wire::fixed64 && f->value == (uint64_t{1} << 63 | 1) && f->bytes.size() == 8);
  f = m.next();
  EXPECT_TRUE(f->number == 3 && f->wire == Wire::bytes && f->bytes == inner);
  ProtobufMessage within = m.in(*f);
  ProtobufMessage packed = within.in(*within.next());
  EXPECT_EQ(packed.varint(), 150u);
  EXPECT_TRUE(packed.left().empty());
  EXPECT_FALSE(within.next());
  f = m.next();
  EXPECT_TRUE(f->number == 4 && f->wire == Wire::fixed32 && f->value == 0x3f800000);
  f = m.next();
  EXPECT_TRUE(f->number == (1u << 29) - 1 && f->bytes.empty());
  EXPECT_FALSE(m.next());
  EXPECT_FALSE(message("").next());
  const std::string largest = "\x08" + std::string(9, '\xff') + "\x01";
  EXPECT_EQ(message(largest).next()->value, UINT64_MAX);
}

TEST(Protobuf, WhatIsNoMessageIsNamedWithItsOffset) {
  for (const auto& [text, rule] : std::vector<std::pair<std::string, const char*>>{
           {"\x08", "it ends inside a number at byte 1"},
           {"\x08\xff", "it ends inside a number at byte 2"},
           {"\x08" + std::string(10, '\xff') + "\x01", "a number at byte 11 is too long"},
           {"\x08\x01\x0b", "byte 2 begins no field"},
           {std::string(2, '\0'), "byte 0 begins no field"},
           {"\x0a\x05xx", "a field of 5 bytes at byte 2 leaves its message, which ends at 4"},
           {"\x0d\x01\x02", "a field of 4 bytes at byte 1 leaves its message, which ends at 3"},
           {"\x09\x01\x02", "a field of 8 bytes at byte 1"},
           {"\x12\x03\x0a\x02x", "a field of 2 bytes at byte 4 leaves its message, which ends at 5"}}) {
    const std::string error_text = message_of<UserError>([&] {
      ProtobufMessage m = message(text);
      while (auto f = m.next())
        if (f->number == 2)
          for (ProtobufMessage within = m.in(*f); within.next();) {
          }
    });
    EXPECT_NE(error_text.find(fmt::format("(here): {}", rule)), std::string::npos) << rule << ": " << error_text;
  }
}

}  // namespace test_files_protobuf
}  // namespace ravine

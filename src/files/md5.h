// MD5 (RFC 1321), for file names that other programs derive with it. Not for security.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

std::string md5_hex(std::string_view text);  // 32 hexadecimal digits

}  // namespace ravine

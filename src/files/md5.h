// MD5 (RFC 1321), for names of files that other programs derive in this way. Not for security.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

std::string md5_hex(std::string_view text);  // 32 hexadecimal digits

}  // namespace ravine

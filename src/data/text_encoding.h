// Which bytes a file of another encoding or kind begins with. For messages: nothing is converted here.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// Refuses by name what shows itself in its first bytes: UTF-16, and files of gzip, zstd, xz, zip, PDF or parquet under the name
// of a text. Other bytes pass.
void refuse_other_bytes(std::string_view begin, const std::string& path);

// The same of a file.
void refuse_other_kind(const std::string& path);

// What to do about text that is not UTF-8: the command that converts it where the encoding is likely (GB18030 for Chinese),
// else how to find it.
std::string encoding_advice(std::string_view text, const std::string& path);

[[noreturn]] void refuse_encoding(std::string_view text, const std::string& path, const std::string& where);

}  // namespace ravine

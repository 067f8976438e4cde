// Recognizes other encodings and kinds of files by their first bytes, for messages. Nothing is converted.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// Throws a UserError if the first bytes show UTF-16, or a file of gzip, zstd, xz, zip, PDF or parquet under the name of
// a text file. Other bytes are accepted.
void refuse_other_bytes(std::string_view begin, const std::string& path);

// The same for a file.
void refuse_other_kind(const std::string& path);

// Returns the advice for text that is not UTF-8: the command that converts it if the encoding is likely (GB18030 for
// Chinese), else how to find the encoding.
std::string encoding_advice(std::string_view text, const std::string& path);

// Throws the UserError of text that is not UTF-8, with encoding_advice().
[[noreturn]] void refuse_encoding(std::string_view text, const std::string& path, const std::string& where);

}  // namespace ravine

// Recognizes other encodings and kinds of files by their first bytes, for messages. Nothing is converted.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

// Checks the first bytes of a file with the name of a text file. Throws a UserError if they are UTF-16, or the
// beginning of a gzip, zstd, xz, zip, PDF or parquet file. Other bytes are accepted.
void refuse_other_bytes(std::string_view begin, const std::string& path);

// Reads the first bytes of a file with the name of a text file. Throws a UserError if they are UTF-16, or the beginning
// of a gzip, zstd, xz, zip, PDF or parquet file.
void refuse_other_kind(const std::string& path);

// Returns the advice of a message that a text is not UTF-8. If `text` looks like a known encoding (GB18030 for
// Chinese), it is the command that converts the file at `path`; else it says how to find out the encoding.
std::string encoding_advice(std::string_view text, const std::string& path);

// Throws a UserError that a text is not UTF-8. It names `where` and has encoding_advice().
[[noreturn]] void refuse_encoding(std::string_view text, const std::string& path, const std::string& where);

}  // namespace ravine

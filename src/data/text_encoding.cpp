#include "data/text_encoding.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "files/compressed.h"

namespace ravine {
namespace {

constexpr size_t kBeginning = 512;  // bytes of a file that show its kind

struct Magic {
  std::string_view bytes;
  const char *name, *suffix;
};
constexpr Magic kCompressed[] = {{"\x1f\x8b", "gzip", ".gz"},
                                 {"\x28\xb5\x2f\xfd", "zstd", ".zst"},
                                 {"\xfd"
                                  "7zXZ",
                                  "xz", ".xz"}};

unsigned char byte(std::string_view t, size_t i) { return static_cast<unsigned char>(t[i]); }

std::string convert_from(const char* encoding, const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path file = path;
  const fs::path made = file.parent_path() / (file.stem().string() + ".utf8" + file.extension().string());
  return fmt::format("iconv -f {} -t UTF-8 {} > {}", encoding, shell_word(path), shell_word(made.string()));
}

// True if the bytes look like Chinese in GBK: in nearly all pairs, both bytes are above 0xa0, as in common characters.
bool looks_chinese(std::string_view t) {
  size_t pairs = 0, common = 0;
  for (size_t i = 0; i < t.size(); ++i) {
    if (byte(t, i) < 0x80) continue;
    if (i + 1 == t.size()) break;  // the text is cut here
    const unsigned char lead = byte(t, i), trail = byte(t, ++i);
    if (lead == 0x80 || lead == 0xff || trail < 0x30 || trail == 0x7f || trail == 0xff) return false;
    if (trail < 0x40) {  // four bytes of GB18030
      i += 2;
      continue;
    }
    ++pairs;
    common += lead >= 0xa1 && trail >= 0xa1;
  }
  return pairs > 0 && 10 * common >= 8 * pairs;
}

// True if single bytes above 0x7f between ASCII letters prevail, as in French or German text in Latin-1.
bool looks_western(std::string_view t) {
  size_t high = 0, alone = 0;
  for (size_t i = 0; i < t.size(); ++i) {
    if (byte(t, i) < 0x80) continue;
    ++high;
    alone += (i == 0 || byte(t, i - 1) < 0x80) && (i + 1 == t.size() || byte(t, i + 1) < 0x80);
  }
  return high > 0 && 10 * alone >= 8 * high;
}

// Returns the number of characters of several bytes before the first invalid UTF-8.
int64_t utf8_characters(std::string_view t) {
  const std::string_view good = t.substr(0, find_invalid_utf8(t));
  return std::count_if(good.begin(), good.end(), [](char c) { return static_cast<unsigned char>(c) >= 0xc2; });
}

}  // namespace

void refuse_other_bytes(std::string_view begin, const std::string& path) {
  auto refuse = [&](const std::string& what, const std::string& fix) {
    throw UserError(what, path, "data are text in UTF-8, or the kind of file that the name says", fix);
  };
  for (const Magic& m : kCompressed)
    if (begin.starts_with(m.bytes))
      refuse(fmt::format("a file of {}", m.name),
             fmt::format("give it the suffix: mv {} {}", shell_word(path), shell_word(path + m.suffix)));
  if (begin.starts_with("PK\x03\x04"))
    refuse("a zip archive (.docx and .xlsx are such too)", "unpack it, or save the text as .txt, a table as .csv");
  if (begin.starts_with("%PDF-")) refuse("a PDF", "make text of it first, for example with pdftotext, as a .txt file");
  if (begin.starts_with("PAR1"))
    refuse("a parquet file", fmt::format("give it the suffix: mv {} {}", shell_word(path), shell_word(path + ".parquet")));
  if (begin.starts_with("\xff\xfe") || begin.starts_with("\xfe\xff"))
    refuse("text in UTF-16", "convert it: " + convert_from("UTF-16", path));
}

void refuse_other_kind(const std::string& path) {
  std::string begin(kBeginning, '\0');
  begin.resize(open_bytes(path)->read(std::as_writable_bytes(std::span(begin))));
  refuse_other_bytes(begin, path);
}

std::string encoding_advice(std::string_view text, const std::string& path) {
  const size_t bad = std::min(find_invalid_utf8(text), text.size());
  constexpr size_t kSeen = 1 << 16;
  const std::string_view seen = text.substr(0, std::max(kSeen, std::min(text.size(), bad + 64)));
  const auto controls = std::count_if(seen.begin(), seen.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f';
  });
  if (20 * controls > static_cast<int64_t>(seen.size())) return "it does not look like text: name another file";
  const std::string drop = fmt::format("iconv -c -f UTF-8 -t UTF-8 {}", shell_word(path));
  if (utf8_characters(text) >= 4)
    return fmt::format("what comes before is UTF-8, so this byte is damaged: correct it, or leave such bytes out: {} > FILE",
                       drop);
  if (looks_western(seen))
    return "convert it from the encoding it was saved in, likely Western: " + convert_from("WINDOWS-1252", path);
  if (looks_chinese(seen))
    return "convert it from the encoding it was saved in, likely GBK (Chinese): " + convert_from("GB18030", path);
  return fmt::format("convert it from the encoding it was saved in (GB18030, BIG5, SHIFT_JIS, WINDOWS-1251, ..): {}",
                     convert_from("ENCODING", path));
}

void refuse_encoding(std::string_view text, const std::string& path, const std::string& where) {
  throw UserError("text is not UTF-8", where, "data must be UTF-8", encoding_advice(text, path));
}

}  // namespace ravine

#include "text/unicode/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/uscript.h>
#include <unicode/ustring.h>
#include <unicode/utext.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "text/unicode/unicode_delta.h"

namespace ravine {

namespace {

bool age_at_most(char32_t c, int major) {
  UVersionInfo v;
  u_charAge(static_cast<UChar32>(c), v);
  return v[0] > 0 && v[0] <= major;
}

bool is_white(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) || (c >= 0x5b && c <= 0x60) || (c >= 0x7b && c <= 0x7e);
}

// Circled and squared Latin letters: alphabetic, but symbols.
bool is_other_alphabetic(char32_t c) {
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189);
}

uint8_t class_of_category(std::string_view category) {
  uint8_t of = 0;
  if (category[0] == 'L') of |= kLetter | kWord;
  if (category[0] == 'N') of |= kNumber;
  if (category[0] == 'M' || category == "Nd" || category == "Nl" || category == "Pc") of |= kWord;
  return of;
}

const char* category_name(int8_t type) {
  static constexpr const char* kNames[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd",
                                           "Nl", "No", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs", "Pd",
                                           "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf"};
  return kNames[type];
}

}  // namespace

CharTable::CharTable() {
  std::vector<uint8_t> all(0x110000);
  auto fill = [&](char32_t first, char32_t last, uint8_t of) {
    for (char32_t c = first; c <= last && c < 0x110000; ++c) all[c] = of;
  };
  using Fill = decltype(fill);
  u_enumCharTypes(
      [](const void* context, UChar32 start, UChar32 limit, UCharCategory type) -> UBool {
        (*static_cast<const Fill*>(context))(static_cast<char32_t>(start), static_cast<char32_t>(limit - 1),
                                             class_of_category(category_name(static_cast<int8_t>(type))));
        return true;
      },
      &fill);
  each_category_delta(
      [&](char32_t first, char32_t last, std::string_view category) { fill(first, last, class_of_category(category)); });
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (is_white(c)) all[c] |= kSpace;
    if (c == 0x200c || c == 0x200d || is_other_alphabetic(c)) all[c] |= kWord;
    int8_t type = u_charType(static_cast<UChar32>(c));
    bool punctuation = (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK) && age_at_most(c, 8);
    if (type != U_UNASSIGNED && (punctuation || is_ascii_punctuation(c) || c == 0x166d || c == 0x111c9)) all[c] |= kPunctuation;
    if (all[c] & kNumber) all[c] |= kNumeric;
  }
  // Numbers of Unicode 17.
  for (auto [first, last] : {std::pair<char32_t, char32_t>{0x11de0, 0x11de9}, {0x16ff4, 0x16ff6}})
    for (char32_t c = first; c <= last; ++c) all[c] |= kNumeric;
  std::map<std::string, uint32_t> known;
  for (size_t p = 0; p < std::size(page_of_); ++p) {
    std::string page(reinterpret_cast<const char*>(all.data()) + p * 256, 256);
    auto [it, fresh] = known.emplace(page, static_cast<uint32_t>(pages_.size()));
    if (fresh) pages_.insert(pages_.end(), page.begin(), page.end());
    page_of_[p] = it->second;
  }
  std::memcpy(ascii_, all.data(), sizeof ascii_);
}

std::shared_ptr<const CharTable> char_table() {
  static const auto table = std::make_shared<const CharTable>();  // data, made at the first use
  return table;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
  } else if (c < 0x10000) {
    out += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)), static_cast<char>(0x80 | (c & 0x3f))};
  } else {
    out += {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3f)),
            static_cast<char>(0x80 | (c >> 6 & 0x3f)), static_cast<char>(0x80 | (c & 0x3f))};
  }
}

size_t take_utf8(std::string_view bytes, bool at_end, std::string& out) {
  if (bytes.empty()) return 0;
  int n = utf8_head(bytes);
  if (n > 0) {
    out += bytes.substr(0, static_cast<size_t>(n));
    return static_cast<size_t>(n);
  }
  if (n == 0 && !at_end) return 0;
  // The longest beginning of a character becomes one U+FFFD.
  size_t bad = 1;
  while (bad < bytes.size() && utf8_head(bytes.substr(0, bad)) == 0 && utf8_head(bytes.substr(0, bad + 1)) == 0) ++bad;
  out += kReplacement;
  return bad;
}

std::string lossy_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 16);
  while (size_t n = take_utf8(bytes, true, out)) bytes.remove_prefix(n);
  return out;
}

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  if (c == 0x130) {
    out += "i\xCC\x87";
    return;
  }
  // Pairs that are newer than ICU's data.
  if (c == 0x1c89 || c == 0xa7cc || c == 0xa7ce || c == 0xa7d2 || c == 0xa7d4 || c == 0xa7da)
    ++c;
  else if (c == 0xa7cb)
    c = 0x264;
  else if (c == 0xa7dc)
    c = 0x19b;
  else if (c >= 0x10d50 && c <= 0x10d65)
    c += 32;
  else if (c >= 0x16ea0 && c <= 0x16eb8)
    c += 27;
  else
    c = static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
  append_utf8(out, c);
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    return;
  }
  UErrorCode error = U_ZERO_ERROR;
  UChar from[2], to[8];
  int32_t n = 0;
  U16_APPEND_UNSAFE(from, n, static_cast<UChar32>(c));
  n = u_strToUpper(to, 8, from, n, "", &error);
  require(U_SUCCESS(error), "unicode: {}", u_errorName(error));
  for (int32_t i = 0; i < n;) {
    UChar32 u;
    U16_NEXT(to, i, n, u);
    append_utf8(out, static_cast<char32_t>(u));
  }
}

bool is_mark(char32_t c) {
  if (c == 0x1cf2 || c == 0x1cf3) return true;
  return c != 0x111c9 && (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) && age_at_most(c, 9);
}

bool is_nonspacing_mark(char32_t c) {
  if (c == 0x1734) return true;
  if (c == 0x1885 || c == 0x1886 || c == 0xa9bd || c == 0x111c9) return false;
  return u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK && age_at_most(c, 8);
}

bool is_other(char32_t c) {
  int8_t type = u_charType(static_cast<UChar32>(c));
  if (type == U_CONTROL_CHAR || type == U_PRIVATE_USE_CHAR) return true;
  return type == U_FORMAT_CHAR && age_at_most(c, 8);
}

bool is_chinese(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

int script_of(char32_t c) {
  if (c == ' ') return -1;
  if (c == 0x30fc) return USCRIPT_HAN;
  UErrorCode error = U_ZERO_ERROR;
  UScriptCode script = age_at_most(c, 9) ? uscript_getScript(static_cast<UChar32>(c), &error) : USCRIPT_UNKNOWN;
  if (script == USCRIPT_UNKNOWN || U_FAILURE(error)) return -1;
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

struct Normalization::Impl {
  icu::UnicodeSet known, plain;  // characters of Unicode 9; characters that never change and never join others
  std::unique_ptr<icu::FilteredNormalizer2> normalizer;
  std::vector<uint64_t> plain_bits;  // of `plain`, one bit per code point
};

Normalization::Normalization(NormalForm form) : impl_(std::make_unique<Impl>()) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* base = nullptr;
  const char* quick = "";
  switch (form) {
    case NormalForm::nfc:
      base = icu::Normalizer2::getNFCInstance(error);
      quick = "NFC_QC";
      break;
    case NormalForm::nfd:
      base = icu::Normalizer2::getNFDInstance(error);
      quick = "NFD_QC";
      break;
    case NormalForm::nfkc:
      base = icu::Normalizer2::getNFKCInstance(error);
      quick = "NFKC_QC";
      break;
    case NormalForm::nfkd:
      base = icu::Normalizer2::getNFKDInstance(error);
      quick = "NFKD_QC";
      break;
  }
  impl_->known.applyPattern(icu::UnicodeString::fromUTF8("[:age=9.0:]"), error);
  std::string plain = fmt::format("[[[:{}=Yes:]&[:ccc=0:]] [^[:age=9.0:]]]", quick);
  impl_->plain.applyPattern(icu::UnicodeString::fromUTF8(plain), error);
  require(U_SUCCESS(error), "unicode: {}", u_errorName(error));
  impl_->known.freeze();
  impl_->normalizer = std::make_unique<icu::FilteredNormalizer2>(*base, impl_->known);
  impl_->plain_bits.resize(0x110000 / 64);
  for (int32_t i = 0; i < impl_->plain.getRangeCount(); ++i)
    for (auto c = static_cast<uint32_t>(impl_->plain.getRangeStart(i)); c <= static_cast<uint32_t>(impl_->plain.getRangeEnd(i));
         ++c)
      impl_->plain_bits[c / 64] |= uint64_t{1} << (c % 64);
}

Normalization::~Normalization() = default;

bool Normalization::is_identity(std::string_view text) const {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      while (at + 8 <= text.size()) {  // runs of ASCII
        uint64_t v;
        std::memcpy(&v, text.data() + at, 8);
        if (v & 0x8080808080808080ull) break;
        at += 8;
      }
      continue;
    }
    char32_t c = next_char(text, at);
    if (!(impl_->plain_bits[c / 64] >> (c % 64) & 1)) return false;
  }
  return true;
}

std::string Normalization::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  // ICU counts in 32 bits, so longer text is processed in pieces, cut between two characters of ASCII.
  constexpr size_t kPiece = size_t{1} << 24;
  while (!text.empty()) {
    size_t n = text.size();
    if (n > kPiece) {
      n = kPiece;
      while (n < text.size() && !(static_cast<unsigned char>(text[n]) < 0x80 && static_cast<unsigned char>(text[n - 1]) < 0x80))
        ++n;
    }
    icu::StringByteSink<std::string> sink(&out);
    UErrorCode error = U_ZERO_ERROR;
    impl_->normalizer->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(n)), sink, nullptr, error);
    require(U_SUCCESS(error), "unicode: {}", u_errorName(error));
    text.remove_prefix(n);
  }
  return out;
}

std::vector<size_t> grapheme_ends(std::string_view text) {
  std::vector<size_t> ends;
  UErrorCode error = U_ZERO_ERROR;
  std::unique_ptr<icu::BreakIterator> it(icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), error));
  UText* view = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error);
  require(U_SUCCESS(error), "unicode: {}", u_errorName(error));
  it->setText(view, error);
  for (int32_t end = it->next(); end != icu::BreakIterator::DONE; end = it->next()) ends.push_back(static_cast<size_t>(end));
  utext_close(view);
  return ends;
}

}  // namespace ravine

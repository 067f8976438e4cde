"""Makes src/text/unicode/unicode_delta_table.inc: code points whose class in the regular expressions of Hugging Face tokenizers (Oniguruma, Unicode 16)
is not that of Unicode 14, which PCRE2 10.42 carries. Asked of the library itself, code point by code point.

  python tools/golden/make_unicode.py src/text/unicode/unicode_delta_table.inc      (Python with unicodedata 14.0, tokenizers)
"""
import sys, unicodedata
import tokenizers
from tokenizers import Regex, pre_tokenizers

assert unicodedata.unidata_version == "14.0.0"
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
SCRIPTS = "Han Hiragana Katakana Hangul Cyrillic Greek Latin Arabic Thai Hebrew Devanagari".split()
ALL = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def members(name):
    split, kept = pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed"), set()
    for b in range(0, 0x110000, 0x400):
        text = "".join(chr(c) for c in range(b, b + 0x400) if not 0xD800 <= c <= 0xDFFF)
        for part, _ in split.pre_tokenize_str(text) if text else []:
            kept.update(map(ord, part))
    return set(ALL) - kept


def ranges(pairs):
    rows = []
    for c, k in sorted(pairs):
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == k:
            rows[-1][1] = c
        else:
            rows.append([c, c, k])
    return rows


category = {c: k for k in CATEGORIES for c in members(k)}
delta = ranges((c, category.get(c, "Cn")) for c in ALL if category.get(c, "Cn") != unicodedata.category(chr(c)))
# Python knows no scripts: what is new since 14 and in the script.
new = {c for c in ALL if unicodedata.category(chr(c)) == "Cn"}
scripts = [r for s in SCRIPTS for r in ranges((c, s) for c in members(s) & new)]
with open(sys.argv[1], "w") as f:
    f.write("// Made by tools/golden/make_unicode.py with tokenizers %s. First and last code point, general category or script.\n" % tokenizers.__version__)
    for title, rows in (("kCategoryDelta", delta), ("kScriptDelta", scripts)):
        f.write("constexpr DeltaRange %s[] = {\n" % title)
        line = "   "
        for a, b, k in rows:
            item = ' {0x%x, 0x%x, "%s"},' % (a, b, k)
            if len(line) + len(item) > 126:
                f.write(line + "\n")
                line = "   "
            line += item
        f.write(line + "\n};\n")

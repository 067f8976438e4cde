"""Whether Debian's libonig knows the characters that the Hugging Face library knows: character classes, code point by code point.

    python tools/golden/compare_oniguruma.py [libonig.so.5] > tools/logs/oniguruma.log

Needs tokenizers and libonig5. Where they differ, a tokenizer run by this libonig gives other ids than the library's."""
import ctypes, sys
import tokenizers
from tokenizers import Regex, pre_tokenizers

CLASSES = [r"\p{L}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Han}", r"\p{Lu}", r"\p{Ll}", r"\s"]
CODES = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]

onig = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libonig.so.5")
utf8, ruby = ctypes.c_char.in_dll(onig, "OnigEncodingUTF8"), ctypes.c_char.in_dll(onig, "OnigSyntaxRuby")
encodings = (ctypes.c_void_p * 1)(ctypes.addressof(utf8))
onig.onig_initialize(encodings, 1)
onig.onig_version.restype = ctypes.c_char_p
print(f"libonig {onig.onig_version().decode()}, tokenizers {tokenizers.__version__}")
for text in CLASSES:
    pattern, raw = ctypes.c_void_p(), text.encode()
    buffer = ctypes.create_string_buffer(raw, len(raw))
    begin = ctypes.addressof(buffer)
    status = onig.onig_new(ctypes.byref(pattern), ctypes.c_void_p(begin), ctypes.c_void_p(begin + len(raw)), 0, ctypes.byref(utf8),
                           ctypes.byref(ruby), None)
    if status:
        sys.exit(f"{text}: onig_new gives {status}")
    split = pre_tokenizers.Split(Regex(text), "removed")
    counts, differ = [0, 0], []
    for code in CODES:
        one = chr(code).encode()
        place = ctypes.create_string_buffer(one, len(one))
        at = ctypes.addressof(place)
        here = onig.onig_match(pattern, ctypes.c_void_p(at), ctypes.c_void_p(at + len(one)), ctypes.c_void_p(at), None, 0) == len(one)
        there = not split.pre_tokenize_str(chr(code))
        counts[0] += here
        counts[1] += there
        if here != there:
            differ.append(code)
    print(f"{text}: {counts[0]} here, {counts[1]} there, {len(differ)} differ", *(f"U+{c:04X}" for c in differ[:4]))

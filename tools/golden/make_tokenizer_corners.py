"""Makes tests/golden/tokenizer_corners.json: small tokenizers of random parts (and some of parts that tell branches apart), and what PyPI's tokenizers does with them.

  python tools/golden/make_tokenizer_corners.py tests/golden         (needs tokenizers)
"""
import itertools, json, os, random, sys
from tokenizers import Tokenizer

r = random.Random(5)
TEXTS = ["", " ", "the cat", " The  CAT ", "a\nb", "x1y22", "don't", "Grün café", "cafe\u0301", "山谷 a", "a.b,c!", "<s>the</s>", "the [L] cat", "[L]cat", "cat [R]  x", "awhole whole", "whole, b", "Named named", "  <s> ", "▁a▁b", "абв", "\uff21\ufb01", "\U0001F600!",
         "a\tb\u00a0c", "aab", "abcabc", "zzz", "z a z", "\u200bx\u00ad", "ÄÖ ß", "<pad>whole<pad>", "e\u0301\u0327", "a\x00b\x07c", "1.5e-3", "ab12cd"]
LETTERS = list("abcdehtxyz1259 .,!'▁") + ["the", "cat", "ca", "at", "th", "he", "ab", "bc", "abc", "##a", "##t", "##at", "##b", "##c", "▁a", "▁the", "é", "ü", "а", "б", "в", "山", "\u0301", "<0xE8>", "<0xB0>", "<0xB7>", "<0xC3>", "<0xA9>", "<0x41>", "|", "on", "n't", "don", "</w>", "t</w>", "at</w>", "a</w>", "b</w>", "A", "T", "[UNK]"]
ADDED = [("<s>", dict(special=True, normalized=False)), ("</s>", dict(special=True, normalized=False)), ("<pad>", dict(special=True, normalized=False, lstrip=True, rstrip=True)), ("[L]", dict(special=False, normalized=False, lstrip=True)),
         ("[R]", dict(special=False, normalized=True, rstrip=True)), ("whole", dict(special=False, normalized=False, single_word=True)), ("Named", dict(special=False, normalized=True))]


def one_of(*all):
    return r.choice(all)


def flip():
    return r.random() < 0.5


def normalizer(depth=0):
    kind = r.randrange(15)
    if depth == 0 and flip():
        return None if flip() else dict(type="Sequence", normalizers=[normalizer(1) for _ in range(r.randint(1, 3))])
    return [dict(type="NFC"), dict(type="NFD"), dict(type="NFKC"), dict(type="NFKD"), dict(type="Lowercase"), dict(type="StripAccents"), dict(type="Strip", strip_left=flip(), strip_right=flip()),
            dict(type="BertNormalizer", clean_text=flip(), handle_chinese_chars=flip(), strip_accents=one_of(None, True, False), lowercase=flip()),
            dict(type="BertNormalizer", clean_text=flip(), handle_chinese_chars=flip(), strip_accents=one_of(None, True, False), lowercase=flip()),
            dict(type="Prepend", prepend=one_of("▁", "x ")), dict(type="Replace", pattern=dict(String=one_of(" ", "a", "ab")), content=one_of("▁", "", "xx")),
            dict(type="Replace", pattern=dict(Regex=one_of("\\s+", "[0-9]", "^a", "b$")), content=one_of("-", "", "1")), dict(type="Strip", strip_left=True, strip_right=False), dict(type="Strip", strip_left=False, strip_right=True),
            dict(type="Lowercase")][kind]


BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def pre_tokenizer(depth=0):
    if depth == 0 and flip():
        return None if r.random() < 0.3 else dict(type="Sequence", pretokenizers=[pre_tokenizer(1) for _ in range(r.randint(1, 3))])
    return [dict(type="Whitespace"), dict(type="WhitespaceSplit"), dict(type="BertPreTokenizer"), dict(type="Punctuation", behavior=r.choice(BEHAVIORS)), dict(type="Digits", individual_digits=flip()),
            dict(type="CharDelimiterSplit", delimiter=one_of("a", " ")), dict(type="UnicodeScripts"), dict(type="FixedLength", length=r.randint(1, 3)),
            dict(type="Split", pattern=dict(String=one_of("a", " ", "ab")), behavior=r.choice(BEHAVIORS), invert=flip()), dict(type="Split", pattern=dict(Regex=one_of("\\d+", "\\s", "[a-c]+")), behavior=r.choice(BEHAVIORS), invert=flip()),
            dict(type="Metaspace", replacement="▁", prepend_scheme=one_of("always", "never", "first"), split=flip()), dict(type="Metaspace", replacement="▁", prepend_scheme=one_of("always", "never", "first"), split=flip()),
            dict(type="Whitespace")][r.randrange(13)]


def decoder(depth=0):
    if depth == 0 and r.random() < 0.6:
        return None if r.random() < 0.2 else dict(type="Sequence", decoders=[decoder(1) for _ in range(r.randint(1, 4))])
    return [dict(type="Fuse"), dict(type="ByteFallback"), dict(type="Strip", content=one_of(" ", "a", "▁"), start=r.randint(0, 2), stop=r.randint(0, 2)), dict(type="Replace", pattern=dict(String=one_of("▁", "ab", "a", "aa")), content=one_of(" ", "", "xy")),
            dict(type="Replace", pattern=dict(Regex=one_of("a+", "[0-9]")), content=one_of("-", "")), dict(type="Metaspace", replacement="▁", prepend_scheme=one_of("always", "never", "first"), split=True), dict(type="WordPiece", prefix="##", cleanup=flip()),
            dict(type="BPEDecoder", suffix="</w>"), dict(type="Fuse"), dict(type="WordPiece", prefix="##", cleanup=True)][r.randrange(10)]


def model():
    words = ["[UNK]"] + r.sample([w for w in LETTERS if w != "[UNK]"], r.randint(25, len(LETTERS) - 8))
    ids = {w: i for i, w in enumerate(words)}
    kind = one_of("WordPiece", "WordPiece", "WordPiece", "Unigram", "Unigram", "BPE", "BPE", "BPE")
    if kind == "WordPiece":
        return dict(type=kind, unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=one_of(100, 3, 2), vocab=ids)
    if kind == "Unigram":  # few scores, so that ways through a word are often equal
        return dict(type=kind, unk_id=0, vocab=[[w, float(one_of(-1, -2, -3, -4))] for w in words], byte_fallback=flip())
    prefix, suffix = one_of((None, None), (None, None), ("##", None), (None, "</w>"))
    merges = []
    for a, b in itertools.product(words, words):
        whole = a + (b[2:] if prefix else b)
        if len(whole) < 6 and whole in ids and (not prefix or b.startswith("##")) and a not in ("[UNK]",) and b not in ("[UNK]",):
            merges.append([a, b])
    r.shuffle(merges)
    return dict(type=kind, dropout=None, unk_token=one_of("[UNK]", "[UNK]", None), continuing_subword_prefix=prefix, end_of_word_suffix=suffix, fuse_unk=flip(), byte_fallback=flip(), ignore_merges=flip(), vocab=ids, merges=merges)


def post_processor(first):
    return [None, None, dict(type="BertProcessing", sep=["</s>", first + 1], cls=["<s>", first]),
            dict(type="TemplateProcessing", single=[dict(SpecialToken=dict(id="<s>", type_id=0)), dict(Sequence=dict(id="A", type_id=0)), dict(SpecialToken=dict(id="</s>", type_id=0))],
                 pair=[dict(Sequence=dict(id="A", type_id=0)), dict(Sequence=dict(id="B", type_id=0))],
                 special_tokens={"<s>": dict(id="<s>", ids=[first], tokens=["<s>"]), "</s>": dict(id="</s>", ids=[first + 1, first], tokens=["</s>", "<s>"])})][r.randrange(4)]


def made():
    m = model()
    n = len(m["vocab"])
    added = [dict(id=0, content="[UNK]", single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)]
    for i, (content, flags) in enumerate(ADDED):
        added.append(dict(id=n + i, content=content, **dict(dict(single_word=False, lstrip=False, rstrip=False), **flags)))
    return dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=normalizer(), pre_tokenizer=pre_tokenizer(), post_processor=post_processor(n), decoder=decoder(), model=m), n + len(ADDED)


# Ties of Unigram, the limit of WordPiece in characters, unknown bytes and fused unknowns, each by itself.
def plain(model, pre=None, decoder=None):
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None, pre_tokenizer=pre, post_processor=None, decoder=decoder, model=model), len(model["vocab"])


CHOSEN = [plain(dict(type="Unigram", unk_id=0, vocab=[["[UNK]", 0.0], ["a", -1.0], ["b", -1.0], ["c", -1.0], ["ab", -1.5], ["bc", -1.5], ["abc", -2.5]], byte_fallback=False)),
          plain(dict(type="Unigram", unk_id=0, vocab=[["[UNK]", 0.0], ["a", -1.0], ["b", -1.0], ["c", -1.0], ["ab", -2.0], ["bc", -2.0], ["z", -9.0], ["zz", -18.0]], byte_fallback=False)),
          plain(dict(type="WordPiece", unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=3, vocab={"[UNK]": 0, "а": 1, "##б": 2, "##в": 3, "##бв": 4, "a": 5, "##a": 6, "##b": 7, "z": 8, "##z": 9}), dict(type="Whitespace")),
          plain(dict(type="BPE", dropout=None, unk_token="[UNK]", continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=True, byte_fallback=True, ignore_merges=False, vocab={"[UNK]": 0, "a": 1, "<0xD0>": 2, "<0xB0>": 3, "b": 4, "<0x20>": 5}, merges=[])),
          plain(dict(type="BPE", dropout=None, unk_token="[UNK]", continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, ignore_merges=True, vocab={"[UNK]": 0, "a": 1, "b": 2, "ab": 3, "abc": 4, "c": 5}, merges=[["a", "b"]])),
          plain(dict(type="WordPiece", vocab={"[UNK]": 0, "do": 1, "not": 2, "'": 3, "s": 4, "!": 5, "?": 6, ".": 7, ",": 8, "n't": 9, "'m": 10, "'s": 11, "'ve": 12, "'re": 13, "##ly": 14, "i": 15}, unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100), dict(type="WhitespaceSplit"), dict(type="WordPiece", prefix="##", cleanup=True))]
rows = []
todo = list(CHOSEN)
while len(rows) < 150:
    j, size = todo.pop(0) if todo else made()
    try:
        t = Tokenizer.from_str(json.dumps(j))
        texts = TEXTS if len(rows) < len(CHOSEN) else r.sample(TEXTS, 14)
        encode = [[x, t.encode(x, add_special_tokens=False).ids, t.encode(x).ids] for x in texts]
        lists = [[r.randrange(size) for _ in range(r.randint(1, 8))] for _ in range(8 if len(rows) >= len(CHOSEN) else 40)]
        decode = []
        for ids in lists:
            decode.append([ids, t.decode(ids, skip_special_tokens=False), t.decode(ids)])
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt) or len(rows) < len(CHOSEN):
            raise
        continue  # a panic there, or parts that do not go together
    rows.append([j, encode, decode])
with open(os.path.join(sys.argv[1], "tokenizer_corners.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(x, separators=(",", ":")) for x in rows) + "\n]\n")
